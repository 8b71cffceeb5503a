"""Claims: each (job, token) is run once, however often its message is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from redis import Redis

from vkbench.job import Job
from vkbench.wire import cancel_of, claim_of
from vkbench_worker.service.app import VISIBILITY_SECONDS
from vkbench_worker.service.connection import persist

CLAIM_SECONDS = 2 * VISIBILITY_SECONDS  # outlives every redelivery


def claim(redis: Redis, jobs: Sequence[Job], worker: str) -> list[Job]:
    """The jobs that no worker claimed before and whose runs are not cancelled."""
    # Not the worker's name alone: the same worker may be given the same message again.
    mine = f"{worker}:{uuid4().hex}".encode()
    runs = sorted({job.run for job in jobs})

    def ask() -> list[object]:
        with redis.pipeline(transaction=False) as pipe:
            for job in jobs:
                key = claim_of(job.id, job.token)
                pipe.set(key, mine, nx=True, get=True, ex=CLAIM_SECONDS)
            for run in runs:
                pipe.exists(cancel_of(run))
            return list(pipe.execute())

    answers = persist(ask, "claim")  # asked again after a lost answer, the key holds `mine`
    off = {run for run, cancelled in zip(runs, answers[len(jobs) :], strict=True) if cancelled}
    return [
        job
        for job, holder in zip(jobs, answers, strict=False)
        if holder in (None, mine) and job.run not in off
    ]
