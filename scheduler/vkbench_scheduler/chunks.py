"""Chunks: jobs that travel together, cut by the time they are expected to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vkbench.wire import Chunk
from vkbench_db.store import Picked

MOST_JOBS = 200
# A message that runs longer than the broker's visibility timeout would be sent again for nothing.
MOST_LIMIT_SECONDS = 3600.0


def cut(device: str, picked: Iterable[Picked], chunk_seconds: float) -> Iterator[Chunk]:
    """Chunks of about `chunk_seconds`; a job that failed before, or is as long, travels alone."""
    together: list[Picked] = []
    for job in picked:
        if job.job.alone or job.estimate_seconds >= chunk_seconds:
            yield _chunk(device, [job])
            continue
        together.append(job)
        if _is_full(together, chunk_seconds):
            yield _chunk(device, together)
            together = []
    if together:
        yield _chunk(device, together)


def _is_full(jobs: list[Picked], chunk_seconds: float) -> bool:
    return (
        len(jobs) >= MOST_JOBS
        or sum(job.estimate_seconds for job in jobs) >= chunk_seconds
        or sum(job.job.limit_seconds for job in jobs) >= MOST_LIMIT_SECONDS
    )


def _chunk(device: str, jobs: list[Picked]) -> Chunk:
    return Chunk(device=device, jobs=tuple(job.job for job in jobs))
