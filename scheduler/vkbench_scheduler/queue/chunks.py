"""Chunks: jobs that a runner gets together, cut by the time they are expected to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import fsum

from vkbench.job import Job
from vkbench_db.work.store import Picked


@dataclass(frozen=True, kw_only=True)
class ChunkBounds:
    """A chunk is full when it reaches one of these."""

    seconds: float  # of estimated work
    jobs: int
    limit_seconds: float = float("inf")  # sum of the jobs' time limits


def cut(picked: Iterable[Picked], bounds: ChunkBounds) -> Iterator[tuple[Job, ...]]:
    """Chunks of at most `bounds`; a job that failed before, or fills a chunk, goes alone.

    A job that failed before may end the runner again; no other job shares its chunk, so that none
    is blamed for it.
    """
    together: list[Picked] = []
    for pick in picked:
        if pick.job.alone or pick.estimate_seconds >= bounds.seconds:
            yield (pick.job,)
            continue
        together.append(pick)
        if _is_full(together, bounds):
            yield _jobs(together)
            together = []
    if together:
        yield _jobs(together)


def _is_full(picked: list[Picked], bounds: ChunkBounds) -> bool:
    return (
        len(picked) >= bounds.jobs
        or fsum(pick.estimate_seconds for pick in picked) >= bounds.seconds
        or sum(pick.job.limit_seconds for pick in picked) >= bounds.limit_seconds
    )


def _jobs(picked: list[Picked]) -> tuple[Job, ...]:
    return tuple(pick.job for pick in picked)
