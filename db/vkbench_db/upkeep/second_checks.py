"""Second checks of timings that are faster than their device can be: runs with other inputs.

Such a run knows about itself which job it checks, and when people were told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, select, update

from vkbench.case import is_own, with_seed, without_seed
from vkbench.job import FINISHED, ArmKind, Mode, PlannedJob, Source
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.work.runs import create_run
from vkbench_db.work.store import add_jobs

LABEL: Final = "second check"  # of its run
PRIORITY: Final = 1000  # before nightly work
_JOB, _TOLD_AT = "job", "told_at"  # keys of what is kept about the run


@dataclass(frozen=True, kw_only=True)
class SecondCheck:
    """A second check that no alert has told of."""

    run: int
    about: Mapping[str, Any]
    job: int  # that it checks
    state: str  # of its own job
    reason: str
    created_at: float

    @property
    def is_finished(self) -> bool:
        """Whether it has an answer."""
        return self.state in FINISHED


def submit(tx: Connection, jobs: Iterable[int], now: float) -> list[int]:
    """Store a run for each job, once: its case with other inputs; return the new runs.

    A kernel that a bundle declares has the inputs that the bundle holds.
    """
    made = []
    for number in jobs:
        run = create_run(
            tx,
            mode=Mode.PERFORMANCE,
            selection={},
            now=now,
            priority=PRIORITY,
            track="",
            words=RunWords(
                label=LABEL,
                purpose=Purpose(kind=RunKind.SECOND_CHECK, about={_JOB: number}),
                idempotency_key=f"{LABEL} of job {number}",
            ),
        )
        if run.new:
            add_jobs(tx, run.id, [_plan_check(tx, number)])
            made.append(run.id)
    return made


def untold_checks(tx: Connection, since: float) -> list[SecondCheck]:
    """Second checks since a moment that no alert has told of, finished or not."""
    run, job = schema.run.c, schema.job.c
    rows = tx.execute(
        select(run.id.label("run"), run.about, run.created_at, job.state, job.reason)
        .join(schema.job, job.run_id == run.id)
        .where(run.created_at >= since, run.kind == RunKind.SECOND_CHECK)
        .where(run.imported_at.is_(None), run.about[_TOLD_AT].as_float().is_(None))
        .order_by(run.id)
    )
    return [SecondCheck(**row._mapping, job=row.about[_JOB]) for row in rows]


def note_told(tx: Connection, check: SecondCheck, now: float) -> None:
    """Store that every channel has heard of it."""
    about = {**check.about, _TOLD_AT: now}
    tx.execute(update(schema.run).where(schema.run.c.id == check.run).values(about=about))


def _plan_check(tx: Connection, number: int) -> PlannedJob:
    job, case, device = schema.job.c, schema.kernel_case.c, schema.device.c
    row = tx.execute(
        select(
            *(device.key, case.name, job.variant, job.bundle, job.arm_kind, job.limit_seconds),
            *(job.measure_seconds, job.noise, job.source, job.driver),
        )
        .join(schema.kernel_case, case.id == job.case_id)
        .join(schema.device, device.id == job.device_id)
        .where(job.id == number)
    ).one()
    base, seed = without_seed(row.name)
    return PlannedJob(
        device=row.key,
        case=row.name if is_own(row.name) else with_seed(base, seed + 1),
        mode=Mode.PERFORMANCE,
        variant=row.variant,
        bundle=row.bundle,
        arm_kind=ArmKind(row.arm_kind),
        limit_seconds=row.limit_seconds,
        measure_seconds=row.measure_seconds,
        noise=row.noise,
        source=Source(**row.source) if row.source else None,
        driver=row.driver,
    )
