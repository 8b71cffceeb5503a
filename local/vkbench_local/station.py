"""Runs one device's share of a local run, through its own supervisor.

Results are stored as they come, those that came meanwhile together. The next process runs a job
again whose result was not stored when this one died: a kill at any moment neither loses nor doubles
a result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vkbench.device import DeviceFacts
from vkbench.job import Job
from vkbench.messages.wire import Announcement
from vkbench.process import system
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench.words.visible import visible
from vkbench_db.errors import DatabaseBusy
from vkbench_local.journal import Journal
from vkbench_scheduler.queue.chunks import ChunkBounds, cut
from vkbench_shaders.bundle import packaged_sha
from vkbench_worker.errors import RunnerFailed
from vkbench_worker.owner.routes import Route
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.protocol import Ready, lock_path

# What the runner gets at once: `vkbench cancel` takes effect after each chunk.
CHUNK = ChunkBounds(jobs=256, seconds=15.0)
MOST_AT_ONCE = 64  # results that are stored together


class Station:
    """One device at work on a run, beside so many; it may be interrupted from another thread."""

    def __init__(
        self,
        facts: DeviceFacts,
        settings: Settings,
        journal: Journal,
        beside: int,
        route: Route | None = None,
    ) -> None:
        self._facts, self._settings, self._journal = facts, settings, journal
        self._route = route  # through a driver that was added
        self._beside = beside  # stations of the run, this one too
        self._supervisor: Supervisor | None = None  # while there is something to interrupt
        self._is_ready = False  # whether the device is ours and does jobs

    def work(self, run: int) -> None:
        """Do what the run has left for the device, until the journal says that it is stopped.

        The device stays ours until `close`. RunnerFailed says which device could not be used, and
        why.
        """
        supervisor = self._supervisor = self._supervisor or self._open_supervisor()
        self._is_ready = self._is_ready or self._begin(supervisor)
        if self._is_ready:
            self._go_on(supervisor, run)

    def close(self) -> None:
        """End the device's processes and give it back."""
        if self._supervisor:
            self._supervisor.close()
        self._supervisor, self._is_ready = None, False

    @property
    def broken_off(self) -> list[int]:
        """The job that was on the device as it was interrupted at once, if there was one."""
        job = self._supervisor.broken_off if self._supervisor else None
        return [job.id] if job else []

    def interrupt(self, *, at_once: bool) -> None:
        """Stop after the running job, or at once; one that still waits for its device does."""
        if self._supervisor is None:
            return
        if at_once or not self._is_ready:
            self._supervisor.abort()
        else:
            self._supervisor.drain()

    def _open_supervisor(self) -> Supervisor:
        return Supervisor(
            self._facts.key,
            self._settings,
            origin=self._settings.database_url(),
            tell=self._journal.tell,
            beside=self._beside,
            route=self._route,
            note_environment=self._journal.note_environment,
        )

    def _begin(self, supervisor: Supervisor) -> bool:
        """Take the device and its unfinished jobs; False if the run is stopped meanwhile."""
        name, device, journal = self._facts.name, self._facts.key, self._journal
        if journal.stopped:
            return False
        if is_busy(lock_path(self._settings, device)):
            print(visible(f"waiting for {name}: another process uses it"), file=sys.stderr)
        try:
            ready = supervisor.start()
            if self._route:  # the device stays what the host's own driver says of it
                journal.note_environment(ready.environment)
            else:
                journal.announce(_announcement(ready))
            journal.take_over(device, supervisor.recover())
        except (RunnerFailed, DatabaseBusy) as error:
            if journal.stopped:
                return False
            if isinstance(error, RunnerFailed):
                raise RunnerFailed(f"{name}: {error}") from error
            raise
        return True

    def _go_on(self, supervisor: Supervisor, run: int) -> None:
        device, journal = self._facts.key, self._journal
        while not journal.stopped and (picked := journal.take(run, device, CHUNK)):
            for chunk in cut(picked, CHUNK):
                journal.bring_bundles(chunk)
                self._do(supervisor, chunk)

    def _do(self, supervisor: Supervisor, jobs: Sequence[Job]) -> None:
        unanswered = {(job.id, job.token) for job in jobs}
        unstored: list[Result] = []

        def store() -> None:
            self._journal.record(unstored)
            unanswered.difference_update((result.job, result.token) for result in unstored)
            unstored.clear()

        def emit(result: Result) -> None:
            unstored.append(result)
            if len(unstored) >= MOST_AT_ONCE or not supervisor.has_answer:
                store()

        try:
            supervisor.run(jobs, emit)
        finally:
            if unstored:
                store()
        self._journal.give_back(unanswered)


def _announcement(ready: Ready) -> Announcement:
    return Announcement(
        worker="",  # a run on this machine, which takes no jobs of a fleet
        facts=ready.facts,
        environment=ready.environment,
        bundle=packaged_sha(),
    )


def is_busy(path: Path) -> bool:
    """Whether some process holds this lock at the moment."""
    if not path.exists():
        return False
    with path.open() as lock:
        return not system.lock(lock, waits=False)
