"""How far jobs are: of a run, or of a device's share in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vkbench.job import FINISHED, JobState


@dataclass(frozen=True, kw_only=True)
class JobCounts:
    """Jobs by their states."""

    counts: Mapping[JobState, int]  # only states that some job is in

    @property
    def total(self) -> int:
        """Jobs of the run in any state."""
        return sum(self.counts.values())

    @property
    def finished(self) -> int:
        """Jobs that will not change any more."""
        return sum(self.counts.get(state, 0) for state in FINISHED)

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.finished == self.total


@dataclass(frozen=True, kw_only=True)
class Progress(JobCounts):
    """How far a run is."""

    cancelled: bool

    @property
    def state(self) -> str:
        """queued | running | finished | cancelled; arriving while its jobs are stored, elsewhere
        for what an import has left.
        """
        if self.cancelled:
            return "cancelled"
        if self.is_finished:
            return "finished"
        if self.counts.get(JobState.ELSEWHERE):
            return JobState.ELSEWHERE
        if self.counts.get(JobState.ARRIVING, 0) == self.total:
            return JobState.ARRIVING
        return "queued" if self.counts.get(JobState.QUEUED, 0) == self.total else "running"
