"""Claims: each (job, token) is run once, however often its message is delivered.

A claim is a bit that Redis sets and whose value before it tells: it takes no memory worth counting,
so it may outlive every redelivery whatever the number of jobs. A bit does not say whose it is. If
the answer to a claim is lost, its jobs count as claimed, nobody runs them, and the reconciler sends
them again with a new token.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis

from vkbench.job import Job
from vkbench.wire import cancel_of, claim_of
from vkbench_worker.service.app import VISIBILITY_SECONDS
from vkbench_worker.service.connection import persist

CLAIM_SECONDS = 2 * VISIBILITY_SECONDS  # outlives every redelivery


def claim(redis: Redis, jobs: Sequence[Job]) -> list[Job]:
    """The jobs that no worker claimed before and whose runs are not cancelled."""
    bits = [claim_of(job.id, job.token) for job in jobs]
    bitmaps = sorted({bitmap for bitmap, _ in bits})
    runs = sorted({job.run for job in jobs})

    def ask() -> list[object]:
        with redis.pipeline(transaction=True) as pipe:
            for bitmap, bit in bits:
                pipe.setbit(bitmap, bit, 1)
            for run in runs:
                pipe.exists(cancel_of(run))
            for bitmap in bitmaps:
                pipe.expire(bitmap, CLAIM_SECONDS)
            return list(pipe.execute())

    answers = persist(ask, "claim")
    off = {run for run, cancelled in zip(runs, answers[len(jobs) :], strict=False) if cancelled}
    return [
        job
        for job, before in zip(jobs, answers, strict=False)
        if before == 0 and job.run not in off
    ]
