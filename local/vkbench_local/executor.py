"""The executor of `vkbench run`: plans, runs and stores on one machine, with no server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Timer
from types import FrameType
from typing import IO

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError, VkbenchError
from vkbench.process import system
from vkbench.process.user import user_name
from vkbench.programs.build import Build
from vkbench.run import RunWords
from vkbench.settings import Settings
from vkbench.words.visible import visible
from vkbench_db.database import Database, parse_url
from vkbench_db.errors import DatabaseUnreachable
from vkbench_db.work.devices import store_device
from vkbench_local.journal import Journal, View, Watch
from vkbench_local.station import Station
from vkbench_scheduler.bundles import keep_packaged
from vkbench_scheduler.planning import sweeps
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import Submitted, submit
from vkbench_scheduler.planning.sweeps import Sweep
from vkbench_shaders.bundle import Bundle, packaged, packaged_sha
from vkbench_worker.owner.routes import Route
from vkbench_worker.progress import Tell, tell_nobody

STOPPING = (signal.SIGINT, signal.SIGTERM)
# A signal that comes just as the main thread begins to wait is handled only when that wakes.
WAKE_SECONDS = 0.5

Show = Callable[[int], AbstractContextManager[View]]  # a run, shown while the view is open


class DatabaseInUse(VkbenchError):
    """Another `vkbench run` uses this database."""


@contextmanager
def sole_executor(url: str) -> Iterator[None]:
    """Lock a database against other executors; DatabaseInUse names the process that holds it."""
    path = _lock_path(url)
    with _lock_file(path) as lock:
        if not system.lock(lock, waits=False):
            lock.seek(0)
            raise DatabaseInUse(
                f"another `vkbench run` (process {lock.read().strip() or 'unknown'}) uses "
                f"{path.with_suffix('')}: wait until it ends, or give another --database"
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _lock_file(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise DatabaseUnreachable(
            f"the database {path.with_suffix('')} cannot be used: {reason}"
        ) from error


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
    build: Build | None = None,
    label: str = "",
    sweep: Sweep | None = None,
) -> Submitted:
    """A run with all its jobs on these devices of this machine."""
    if bundle is None and build is None and packaged_sha() and packaged().is_compiled:
        keep_packaged(database)
    with database.transaction() as tx:
        for facts in devices:
            store_device(tx, facts)
    keys = tuple(facts.key for facts in devices)
    chosen = replace(selection, devices=keys)
    if sweep:
        return sweeps.submit(database, chosen, devices, sweep, bundle=bundle, user=user_name())
    words = RunWords(user=user_name(), label=label)
    return submit(database, chosen, devices, bundle=bundle, build=build, words=words)


class Executor:
    """Does the jobs of one run, all devices at once, until they are done or it is stopped."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        watch: Watch,
        tell: Tell = tell_nobody,
        *,
        stays: bool = False,
    ) -> None:
        """One that stays keeps its devices, and their processes, from one run to the next."""
        self._settings = settings
        self._journal = Journal(database, settings, watch, tell)
        self._stays = stays
        self._stations: list[Station] = []
        self._interrupts = 0

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop, by the user or the clock."""
        return self._journal.stopped

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self._interrupts > 0

    @property
    def broken_off(self) -> list[int]:
        """The jobs that were on a device as the clock or the user ended them at once."""
        return [job for station in self._stations for job in station.broken_off]

    def follow(self, view: View) -> None:
        """From now on show this view what happens."""
        self._journal.follow(view)

    def work(self, run: int, devices: Sequence[DeviceFacts], routes: Sequence[Route] = ()) -> None:
        """Do what a run has left on these devices, each by a runner of its own.

        Those that have a route are reached by it. A device that fails does not stop the others; the
        first one's error is raised after them.
        """
        count = len(devices)
        by_key = {route.facts.key: route for route in routes}
        if not (self._stays and self._stations):
            self._stations = [
                Station(facts, self._settings, self._journal, count, by_key.get(facts.key))
                for facts in devices
            ]
        with ThreadPoolExecutor(max(1, count), thread_name_prefix="station") as pool:
            ends = [pool.submit(self._work_at, station, run) for station in self._stations]
            while wait(ends, timeout=WAKE_SECONDS).not_done:
                pass
        errors = [error for end in ends if (error := end.exception())]
        for error in errors[1:]:
            print(visible(str(error)), file=sys.stderr)
        if errors:
            raise errors[0]

    def _work_at(self, station: Station, run: int) -> None:
        try:
            station.work(run)
        finally:
            if not self._stays:
                station.close()

    def close(self) -> None:
        """Give all devices back."""
        for station in self._stations:
            station.close()

    def stop(self, *, at_once: bool = False) -> None:
        """Stop after the running jobs, or at once."""
        self._journal.stopped = True
        for station in self._stations:
            station.interrupt(at_once=at_once)

    def interrupt(self, signal_number: int, frame: FrameType | None) -> None:
        """Stop after the running jobs; the second time, stop at once."""
        self._interrupts += 1
        self.stop(at_once=self._interrupts > 1)


@contextmanager
def stopped_after(
    executor: Executor, seconds: float | None, patience: float | None = None
) -> Iterator[None]:
    """Have the executor begin no job after so many seconds; None: it goes on to the end.

    With patience, jobs that run so many seconds longer are broken off.
    """
    if seconds is None:
        yield
        return
    timers = [Timer(seconds, executor.stop)]
    if patience is not None:
        stop_at_once = partial(executor.stop, at_once=True)
        timers.append(Timer(max(seconds, 0.0) + patience, stop_at_once))
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


@contextmanager
def stoppable(executor: Executor) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM stop the executor between jobs instead of ending this process."""
    before = {number: signal.signal(number, executor.interrupt) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
