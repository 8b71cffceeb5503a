"""Results of one case as if a worker had brought them, night by night: a history to depart from."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sqlalchemy import select

from vkbench.job import Job, Mode, Outcome, PlannedJob
from vkbench.result import Result, Timing, Verdict, pack_samples
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.work import store

CASE = "add/f32/b1_c1_h300_w400"
NIGHT = 86_400.0
LEVEL = 1e-4  # seconds

VERDICT = Verdict(
    passed=True, reason="", path="f32", nmse=0.0, nmse_limit=1e-10, max_abs=0.0,
    max_abs_limit=1e-3, compared=1, total=1,
)  # fmt: skip
TIMING = Timing(
    metric="hot", seconds=0.0, mad=0.0, low=0.0, high=1.0, confidence=0.95, best=0.0, count=20,
    launches=1, stop="noise", clock="gpu", bytes_moved=1, flops=1, samples=pack_samples([1.0]),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What was timed, and how long it takes."""

    case: str = CASE
    variant: str = "portable"
    seconds: float = LEVEL
    environment: str = ""  # the device's own
    metric: str = "hot"


def quiet_nights(
    database: Database,
    device: str,
    bundle: str,
    now: float,
    count: int = 25,
    of: Timed = Timed(),
) -> None:
    """So many nights up to now in which nothing happened."""
    rng = random.Random(1)
    for night in range(count, 0, -1):
        seconds = of.seconds * rng.gauss(1, 0.005)
        settle(database, device, bundle, seconds, now - night * NIGHT, of)


def settle(
    database: Database,
    device: str,
    bundle: str,
    seconds: float,
    now: float,
    of: Timed = Timed(),
) -> None:
    """One result, in one transaction, so that no dispatcher sends its job."""
    planned = PlannedJob(
        device=device, case=of.case, mode=Mode.PERFORMANCE, variant=of.variant, bundle=bundle
    )
    with database.transaction() as tx:
        asked = select(schema.device.c.environment).where(schema.device.c.key == device)
        environment = of.environment or tx.execute(asked).scalar_one()
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=now, priority=9).id
        store.add_jobs(tx, run, [planned])
        [picked] = store.pick(tx, device, 1, now, run=run)
        found = _result(picked.job, bundle, seconds, of.metric)
        store.record(tx, [replace(found, environment=environment)], now)


def _result(job: Job, bundle: str, seconds: float, metric: str) -> Result:
    return Result(
        job=job.id, token=job.token, outcome=Outcome.PASSED, case=job.case, variant=job.variant,
        kernel_sha=bundle[::-1], bundle=bundle,  # of a build both are one
        worker="w", started=1.0, seconds=0.1, verdict=VERDICT,
        timings=(replace(TIMING, metric=metric, seconds=seconds),),
    )  # fmt: skip
