"""Parting: jobs go back to the queue when their worker stops, or when their device is recalled.

A job that goes back costs no try. The supervisor's thread asks about the job on the device, and so
that thread alone decides which jobs have begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from vkbench.job import Job
from vkbench_worker.service.lease import Pulse


class Parting:
    """What happens with the jobs of a worker that is told to stop."""

    def __init__(self, pulse: Pulse, hand_back: Callable[[Job], None], seconds: float) -> None:
        self._pulse = pulse
        self._hand_back = hand_back
        self._seconds = seconds  # that the running job has to end
        self._until: float | None = None  # monotonic, once the worker is told to stop

    @property
    def began(self) -> bool:
        """Whether the worker was told to stop."""
        return self._until is not None

    def stop(self) -> None:
        """Begin to stop; told again, give up the running job too."""
        seconds = 0.0 if self.began else self._seconds
        self._until = time.monotonic() + seconds
        self._pulse.leave()

    def ends(self, job: Job) -> bool:
        """Whether the job on the device is to end now; the others go back once the worker stops."""
        if self._pulse.said_leaving:  # before that the scheduler would send them here again
            self._return(other for other in self._pulse.held_jobs() if other != job)
        overdue = self._until is not None and time.monotonic() >= self._until
        return overdue or self._pulse.recalled or self._pulse.is_cancelled(job)

    def finish(self) -> None:
        """Hand back what was not run."""
        self._return(self._pulse.held_jobs())

    def _return(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if not self._pulse.is_cancelled(job):
                self._hand_back(job)
