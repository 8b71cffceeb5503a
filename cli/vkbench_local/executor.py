"""The executor of `vkbench run`: the fleet's plan, runner and store on one machine, with no server.

Every result is stored before the next job ends, and the next process runs a job again that was not
finished when this one died: a kill at any moment neither loses nor doubles a result.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Protocol

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError, VkbenchError
from vkbench.job import Job
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench.user import user_name
from vkbench.visible import visible
from vkbench.wire import Announcement
from vkbench_db.database import Database, Transaction, parse_url
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_db.work.store import Picked
from vkbench_scheduler.bundles import keep_packaged, stored
from vkbench_scheduler.planning import sweeps
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import Submitted, submit
from vkbench_scheduler.planning.sweeps import Sweep
from vkbench_scheduler.queue.chunks import ChunkBounds, cut
from vkbench_scheduler.tuned import with_tuned
from vkbench_shaders.bundle import Bundle, kept_bundles, packaged_sha
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.progress import Tell, unheard
from vkbench_worker.protocol import Ready, Stage, lock_path

# What the runner gets at once: `vkbench cancel` takes effect after each chunk.
CHUNK = ChunkBounds(jobs=256, seconds=15.0)
STOPPING = (signal.SIGINT, signal.SIGTERM)

Watch = Callable[[Result], None]


class View(Protocol):
    """Shows how far a run is."""

    def watch(self, result: Result) -> None:
        """A job ended."""

    def tell(self, stage: Stage) -> None:
        """A job waits for a file."""


Show = Callable[[int], AbstractContextManager[View]]  # a run, shown while the view is open


class DatabaseInUse(VkbenchError):
    """Another `vkbench run` uses this database."""


@contextmanager
def sole_executor(url: str) -> Iterator[None]:
    """Lock a database against other executors; DatabaseInUse names the process that holds it."""
    path = _lock_path(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise DatabaseInUse(
                f"another `vkbench run` (process {lock.read().strip() or 'unknown'}) uses "
                f"{path.with_suffix('')}: wait until it ends, or give another --database"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _lock_path(url: str) -> Path:
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise UsageError(
            "`vkbench run` keeps its results in a SQLite file: give one with --database FILE, "
            "or send the work to a fleet with `vkbench submit`"
        )
    return Path(f"{parsed.database}.lock")


def store_run(
    database: Database,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    *,
    bundle: Bundle | None = None,
    label: str = "",
    sweep: Sweep | None = None,
) -> Submitted:
    """A run with all its jobs on these devices of this machine."""
    if bundle is None:
        keep_packaged(database)
    with database.transaction() as tx:
        for facts in devices:
            store_device(tx, facts)
    keys = tuple(facts.key for facts in devices)
    chosen = replace(selection, devices=keys)
    if sweep:
        return sweeps.submit(database, chosen, devices, sweep, bundle=bundle, user=user_name())
    return submit(database, chosen, devices, bundle=bundle, user=user_name(), label=label)


class Executor:
    """Does the jobs of one run, a device after the other, until they are done or it is stopped."""

    def __init__(
        self, database: Database, settings: Settings, watch: Watch, tell: Tell = unheard
    ) -> None:
        self._database = database
        self._settings = settings
        self._watch, self._tell = watch, tell  # called with each result, and of files on the way
        self._bundles = kept_bundles(settings)
        self._brought: set[str] = set()  # bundles that were looked for
        self._supervisor: Supervisor | None = None
        self._interrupts = 0

    @property
    def stopped(self) -> bool:
        """Whether the user asked it to stop."""
        return self._interrupts > 0

    def follow(self, view: View) -> None:
        """From now on show this view what happens."""
        self._watch, self._tell = view.watch, view.tell

    def work(self, run: int, devices: Sequence[DeviceFacts]) -> None:
        """Do what a run has left on these devices."""
        for facts in devices:
            if not self.stopped:
                self._work_on(run, facts)

    def interrupt(self, signal_number: int, frame: FrameType | None) -> None:
        """Stop after the running job; the second time, stop at once."""
        self._interrupts += 1
        if self._supervisor is None:  # no job runs: we may be waiting for a busy device
            raise KeyboardInterrupt
        (self._supervisor.drain if self._interrupts == 1 else self._supervisor.abort)()

    def _writing(self) -> AbstractContextManager[Transaction]:
        """A writing transaction; it waits out a long one of another process, as of an import."""
        told = False

        def waits() -> bool:
            nonlocal told
            if not told:
                print("waiting for the database: another process writes to it", file=sys.stderr)
            told = True
            return not self.stopped

        return self._database.transaction(waits)

    def _work_on(self, run: int, facts: DeviceFacts) -> None:
        origin = self._settings.database_url()
        if is_busy(lock_path(self._settings, facts.key)):
            print(visible(f"waiting for {facts.name}: another process uses it"), file=sys.stderr)
        with Supervisor(facts.key, self._settings, origin=origin, tell=self._tell) as supervisor:
            self._announce(supervisor.start())
            self._take_over(supervisor, facts.key)
            self._supervisor = supervisor
            while not self.stopped and (picked := self._next(run, facts.key)):
                for chunk in cut(picked, CHUNK):
                    self._bring_bundles(chunk)
                    self._do(supervisor, chunk)
            self._supervisor = None

    def _announce(self, ready: Ready) -> None:
        worker = f"{self._settings.host}:{os.getpid()}"
        announcement = Announcement(
            worker=worker,
            facts=ready.facts,
            environment=ready.environment,
            bundle=packaged_sha(),
        )
        with self._writing() as tx:
            store.register_device(tx, announcement, time.time())

    def _take_over(self, supervisor: Supervisor, device: str) -> None:
        """Queue again the jobs that a dead process left; the one that was running loses a try."""
        now = time.time()
        died = supervisor.recover()
        with self._writing() as tx:
            if died:
                store.record(tx, [died], now)
            sent = store.dispatched_before(tx, now)
            left = [(job.job, job.token) for job in sent if job.device == device]
            store.return_lost(tx, left, now)

    def _next(self, run: int, device: str) -> list[Picked]:
        with self._writing() as tx:
            picked = store.pick(tx, device, CHUNK.jobs, time.time(), seconds=CHUNK.seconds, run=run)
            return with_tuned(tx, device, picked)

    def _bring_bundles(self, jobs: Sequence[Job]) -> None:
        """Write the bundles that jobs need to this machine's folder; a job without one fails."""
        wanted = {sha for job in jobs for sha in (job.bundle, job.against) if sha}
        for sha in sorted(wanted - self._brought):
            self._brought.add(sha)
            try:
                self._bring(sha)
            except (VkbenchError, OSError) as error:
                print(visible(f"bundle {sha[:12]} cannot be had: {error}"), file=sys.stderr)

    def _bring(self, sha: str) -> None:
        if self._bundles.is_whole(sha):
            return
        with self._database.reading() as tx:
            found = stored(tx, sha)
        if found:
            self._bundles.put(found)

    def _do(self, supervisor: Supervisor, jobs: Sequence[Job]) -> None:
        unanswered = {(job.id, job.token) for job in jobs}

        def record(result: Result) -> None:
            with self._writing() as tx:
                store.record(tx, [result], time.time())
            unanswered.discard((result.job, result.token))
            self._watch(result)

        supervisor.run(jobs, record)
        with self._writing() as tx:
            store.return_lost(tx, unanswered, time.time())


def is_busy(path: Path) -> bool:
    """Whether some process holds this lock at the moment."""
    if not path.exists():
        return False
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def stoppable(executor: Executor) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the executor between jobs instead of ending this process."""
    before = {number: signal.signal(number, executor.interrupt) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
