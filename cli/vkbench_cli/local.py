"""The executor of `vkbench run`: the fleet's plan, runner and store on one machine, with no server.

Every result is in the database before the next job ends, and a job that was on its way when this
process died is sent again by the next one, so that a kill at any moment loses and doubles nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import FrameType

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError, VkbenchError
from vkbench.job import Job
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench.wire import Announcement
from vkbench_cli.store import user_name
from vkbench_db import store
from vkbench_db.database import Database, parse_url
from vkbench_db.devices import store_device
from vkbench_scheduler.bundles import keep_packaged, kept
from vkbench_scheduler.selection import Selection
from vkbench_scheduler.submit import Submitted, submit
from vkbench_shaders.bundle import Bundle, BundleStore, packaged_sha
from vkbench_worker.protocol import Ready, lock_path
from vkbench_worker.supervisor import Supervisor

CHUNK_JOBS = 256  # handed to the runner together
CHUNK_SECONDS = 15.0  # of estimated work in them: `vkbench cancel` is heard after each
STOPPING = (signal.SIGINT, signal.SIGTERM)

Watch = Callable[[Result], None]


class DatabaseInUse(VkbenchError):
    """Another `vkbench run` uses this database."""


@contextmanager
def sole_executor(url: str) -> Iterator[None]:
    """Keeps a second executor off a database; DatabaseInUse names the process that has it."""
    path = _lock_path(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise DatabaseInUse(
                f"another `vkbench run` (process {lock.read().strip() or 'unknown'}) uses "
                f"{path.with_suffix('')}: wait for its end, or give another --database"
            ) from None
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
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
) -> Submitted:
    """A run with all its jobs on these devices of this machine."""
    if bundle is None:
        keep_packaged(database)
    with database.transaction() as tx:
        for facts in devices:
            store_device(tx, facts)
    keys = tuple(facts.key for facts in devices)
    chosen = replace(selection, devices=keys)
    return submit(database, chosen, devices, bundle=bundle, user=user_name(), label=label)


class Executor:
    """Does the jobs of one run, a device after the other, until they are done or it is stopped."""

    def __init__(self, database: Database, settings: Settings, watch: Watch) -> None:
        self._database = database
        self._settings = settings
        self._watch = watch
        self._bundles = BundleStore(settings.cache / "bundles")
        self._supervisor: Supervisor | None = None
        self._interrupts = 0

    @property
    def stopped(self) -> bool:
        """Whether somebody asked it to stop."""
        return self._interrupts > 0

    def work(self, run: int, devices: Sequence[DeviceFacts]) -> None:
        """Do what a run has left on these devices."""
        for facts in devices:
            if not self.stopped:
                self._work_on(run, facts)

    def interrupt(self, signal_number: int, frame: FrameType | None) -> None:
        """End after the job that is on the device; asked again, at once."""
        self._interrupts += 1
        if self._supervisor is None:  # nothing runs: we may be waiting for somebody's device
            raise KeyboardInterrupt
        (self._supervisor.drain if self._interrupts == 1 else self._supervisor.abort)()

    def _work_on(self, run: int, facts: DeviceFacts) -> None:
        origin = self._settings.database_url()
        if is_busy(lock_path(self._settings, facts.key)):
            print(f"waiting for {facts.name}: another process uses it", file=sys.stderr)
        with Supervisor(facts.key, self._settings, origin=origin) as supervisor:
            self._announce(supervisor.start())
            self._take_over(supervisor, facts.key)
            self._supervisor = supervisor
            while not self.stopped and (jobs := self._next(run, facts.key)):
                self._bring_bundles(jobs)
                for chunk in chunks(jobs):
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
        with self._database.transaction() as tx:
            store.register_device(tx, announcement, time.time())

    def _take_over(self, supervisor: Supervisor, device: str) -> None:
        """Give back what a dead predecessor left: the job that was on the device pays a try."""
        now = time.time()
        died = supervisor.recover()
        with self._database.transaction() as tx:
            if died:
                store.record(tx, [died], now)
            sent = store.dispatched_before(tx, now)
            left = [(job.job, job.token) for job in sent if job.device == device]
            store.return_lost(tx, left, now)

    def _next(self, run: int, device: str) -> list[Job]:
        with self._database.transaction() as tx:
            picked = store.pick(tx, device, CHUNK_JOBS, time.time(), seconds=CHUNK_SECONDS, run=run)
        return [each.job for each in picked]

    def _bring_bundles(self, jobs: Sequence[Job]) -> None:
        """Have what the runner lacks where it looks; a job says itself that nobody has its own."""
        wanted = {sha for job in jobs for sha in (job.bundle, job.against) if sha}
        for sha in sorted(wanted):
            if not self._bundles.has(sha):
                with self._database.reading() as tx:
                    found = kept(tx, sha)
                if found:
                    self._bundles.put(found)

    def _do(self, supervisor: Supervisor, jobs: Sequence[Job]) -> None:
        unanswered = {(job.id, job.token) for job in jobs}

        def record(result: Result) -> None:
            with self._database.transaction() as tx:
                store.record(tx, [result], time.time())
            unanswered.discard((result.job, result.token))
            self._watch(result)

        supervisor.run(jobs, record)
        with self._database.transaction() as tx:
            store.return_lost(tx, unanswered, time.time())


def chunks(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs as they are handed to the runner: one that failed before goes alone.

    A runner is ahead of us with what it has in its pipe, so if both die together the blame may fall
    on an innocent job, once.
    """
    for alone, group in groupby(jobs, key=lambda job: job.alone):
        together = list(group)
        yield from ([job] for job in together) if alone else [together]


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
