"""A station: what one device of this machine does of a run, by a supervisor of its own.

Every result is stored before the next job ends, and the next process runs a job again that was not
finished when this one died: a kill at any moment neither loses nor doubles a result.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vkbench.device import DeviceFacts
from vkbench.job import Job
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench.visible import visible
from vkbench.wire import Announcement
from vkbench_local.journal import Journal
from vkbench_scheduler.queue.chunks import ChunkBounds, cut
from vkbench_shaders.bundle import packaged_sha
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.protocol import Ready, lock_path

# What the runner gets at once: `vkbench cancel` takes effect after each chunk.
CHUNK = ChunkBounds(jobs=256, seconds=15.0)


class Station:
    """One device at work on a run."""

    def __init__(self, facts: DeviceFacts, settings: Settings, journal: Journal) -> None:
        self._facts, self._settings, self._journal = facts, settings, journal
        self._supervisor: Supervisor | None = None  # while it does jobs

    def work(self, run: int) -> None:
        """Do what the run has left for the device, until the journal says that it is stopped."""
        origin = self._settings.database_url()
        device, journal = self._facts.key, self._journal
        if is_busy(lock_path(self._settings, device)):
            name = self._facts.name
            print(visible(f"waiting for {name}: another process uses it"), file=sys.stderr)
        with Supervisor(device, self._settings, origin=origin, tell=journal.tell) as supervisor:
            journal.announce(_announcement(supervisor.start(), self._settings.host))
            journal.take_over(device, supervisor.recover())
            self._supervisor = supervisor
            while not journal.stopped and (picked := journal.take(run, device, CHUNK)):
                for chunk in cut(picked, CHUNK):
                    journal.bring_bundles(chunk)
                    self._do(supervisor, chunk)
            self._supervisor = None

    def interrupt(self, *, at_once: bool) -> bool:
        """Stop after the running job, or at once; False if there is no job to stop after."""
        if self._supervisor is None:  # we may be waiting for a busy device
            return False
        (self._supervisor.abort if at_once else self._supervisor.drain)()
        return True

    def _do(self, supervisor: Supervisor, jobs: Sequence[Job]) -> None:
        unanswered = {(job.id, job.token) for job in jobs}

        def record(result: Result) -> None:
            self._journal.record(result)
            unanswered.discard((result.job, result.token))

        supervisor.run(jobs, record)
        self._journal.give_back(unanswered)


def _announcement(ready: Ready, host: str) -> Announcement:
    return Announcement(
        worker=f"{host}:{os.getpid()}",
        facts=ready.facts,
        environment=ready.environment,
        bundle=packaged_sha(),
    )


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
