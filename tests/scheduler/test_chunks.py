"""Chunks: about a second of work each, and the doubtful alone."""

from vkbench.job import Job, Mode
from vkbench_db.work.store import Picked
from vkbench_scheduler.queue.chunks import ChunkBounds, cut
from vkbench_scheduler.queue.dispatch import MOST_JOBS, MOST_LIMIT_SECONDS


def picked(number: int, seconds: float, *, alone: bool = False, limit: float = 1.0) -> Picked:
    job = Job(
        id=number,
        token=1,
        case="copy/f32/n1",
        mode=Mode.CORRECTNESS,
        alone=alone,
        limit_seconds=limit,
    )
    return Picked(job=job, run=1, estimate_seconds=seconds)


def sizes(jobs: list[Picked], seconds: float = 1.0) -> list[list[int]]:
    bounds = ChunkBounds(seconds=seconds, jobs=MOST_JOBS, limit_seconds=MOST_LIMIT_SECONDS)
    return [[job.id for job in chunk] for chunk in cut(jobs, bounds)]


def test_chunks_are_cut_by_time() -> None:
    jobs = [picked(number, 0.25) for number in range(10)]
    assert sizes(jobs) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_long_jobs_and_those_that_failed_travel_alone() -> None:
    jobs = [picked(0, 0.1), picked(1, 2.0), picked(2, 0.1, alone=True), picked(3, 0.1)]
    assert sizes(jobs) == [[1], [2], [0, 3]]


def test_a_chunk_has_a_most_of_jobs_and_of_limits() -> None:
    assert len(sizes([picked(n, 1e-4) for n in range(MOST_JOBS + 1)])[0]) == MOST_JOBS
    assert sizes([picked(n, 1e-4, limit=2000) for n in range(3)]) == [[0, 1], [2]]


def test_nothing_gives_nothing() -> None:
    assert sizes([]) == []
