"""What a run of paired jobs found: the times of both arms, and whose outputs were wrong."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Subquery, select

from vkbench.case import WEIGHTS, parse
from vkbench.job import UNFINISHED, Mode, PlannedJob, Source, State
from vkbench.result import NEW, OLD, wrong_arms
from vkbench_db import models


@dataclass(frozen=True, kw_only=True)
class PairResults:
    """The pairs of a run so far, in the order of its jobs: `old` and `new` belong together."""

    old: tuple[float, ...]  # seconds of one launch
    new: tuple[float, ...]
    old_wrong: str  # why an output of the old bundle was wrong, the first time; "" if it never was
    new_wrong: str
    failed: str  # why a pair was not measured (failed, skipped, cancelled), the first time; or ""
    pending: int  # jobs that have not ended


def is_pending(tx: Connection, run: int) -> bool:
    """Whether a run has jobs that have not ended: asked each second, where the rest is not."""
    job = models.Job
    waiting = select(job.id).where(job.run_id == run, job.state.in_(UNFINISHED)).limit(1)
    return tx.execute(waiting).first() is not None


def pair_results(tx: Connection, run: int) -> PairResults:
    """What the paired jobs of a run found so far."""
    job, old, new = models.Job, _timing(OLD), _timing(NEW)
    rows = tx.execute(
        select(job.state, job.cause, job.reason, old.c.seconds.label(OLD), new.c.seconds.label(NEW))
        .outerjoin(old, old.c.job_id == job.id)
        .outerjoin(new, new.c.job_id == job.id)
        .where(job.run_id == run)
        .order_by(job.position)
    ).all()
    wrong = [wrong_arms(row.reason) for row in rows if row.state == State.WRONG]
    ended = [row for row in rows if row.state not in (*UNFINISHED, State.PASSED, State.WRONG)]
    paired = [(row.old, row.new) for row in rows if row.old and row.new]
    return PairResults(
        old=tuple(pair[0] for pair in paired),
        new=tuple(pair[1] for pair in paired),
        old_wrong=next((arms[OLD] for arms in wrong if OLD in arms), ""),
        new_wrong=next((arms[NEW] for arms in wrong if NEW in arms), ""),
        failed=next((row.reason or row.cause or row.state for row in ended), ""),
        pending=sum(row.state in UNFINISHED for row in rows),
    )


def last_pairs(tx: Connection, run: int) -> list[PlannedJob]:
    """The last pair of each device in a run, to be asked for again."""
    job, device, known = models.Job, models.Device, models.KernelCase
    rows = tx.execute(
        select(job.__table__, device.key, known.name)
        .join(device, device.id == job.device_id)
        .join(known, known.id == job.case_id)
        .where(job.run_id == run)
        .order_by(job.position)
    ).all()
    last = {row.key: row for row in rows}
    return [
        PlannedJob(
            device=row.key,
            case=row.name,
            mode=Mode(row.mode),
            variant=row.variant,
            bundle=row.bundle,
            against=row.against,
            metric=row.metric,
            new_first=row.new_first,
            limit_seconds=row.limit_seconds,
            measure_seconds=row.measure_seconds,
            noise=row.noise,
            estimate_seconds=row.estimate_seconds,
            source=Source(**row.source) if row.source else None,
        )
        for row in sorted(last.values(), key=lambda row: row.position)
    ]


def last_source(tx: Connection, case: str, device: str) -> Source | None:
    """Where the weights of a case lie on a device's host, as the last job with them knew it."""
    if WEIGHTS not in parse(case).params:
        return None
    job = models.Job
    found = tx.execute(
        select(job.source)
        .join(models.Device, models.Device.id == job.device_id)
        .join(models.KernelCase, models.KernelCase.id == job.case_id)
        .where(
            models.Device.key == device,
            models.KernelCase.name == case,
            job.source.is_not(None),
        )
        .order_by(job.id.desc())
        .limit(1)
    ).scalar()
    return Source(**found) if found else None


def _timing(metric: str) -> Subquery:
    measurement = models.Measurement
    return (
        select(measurement.job_id, measurement.seconds)
        .where(measurement.metric == metric)
        .subquery(metric)
    )
