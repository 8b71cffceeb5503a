"""Results that became wrong: found when they come in, and certain at once.

A wrong result needs no second measurement: its outputs were compared. What is asked of the chain of
jobs of one case, device, mode and asked-for code path is only whether the one before was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_, select

from vkbench.job import State
from vkbench_db import models
from vkbench_db.change_points import (
    WRONG,
    Finding,
    Method,
    Standing,
    Suspicion,
    cause_of,
    settle,
    suspect,
)
from vkbench_db.series import VERDICT, Identity, origins, series_ids

AnyRow = Row[*tuple[Any, ...]]


def judge(tx: Connection, jobs: Sequence[int], now: float) -> list[int]:
    """Confirmed change points for those of the jobs that are wrong where the one before was right.

    Says the ids of new ones. A job that comes late finds the change that is known already.
    """
    found = []
    for row in _wrong(tx, jobs):
        before = tx.execute(chain(row, before=True).limit(1)).first()
        if before is None or before.state != State.PASSED:
            continue
        identity = _identity(row)
        series = series_ids(tx, [identity])[identity]
        if not _is_known(tx, series, before.id):
            found.append(_suspicion(series, before.id, row))
    made = suspect(tx, found, now)
    _confirm(tx, made, now)
    return made


def wrong_pairs(tx: Connection, change: AnyRow, run: int, now: float) -> list[int]:
    """The confirmed change point of a run of pairs whose new outputs were wrong."""
    job, series = models.Job, models.Series
    first = tx.execute(
        select(job.id, job.reason)
        .where(job.run_id == run, job.state == State.WRONG)
        .order_by(job.id)
        .limit(1)
    ).one()
    timed = tx.execute(select(series.__table__).where(series.id == change.series_id)).one()
    identity = _identity(timed)
    verdicts = series_ids(tx, [identity])[identity]
    if _is_known(tx, verdicts, change.before_job):
        return []
    made = suspect(tx, [_suspicion(verdicts, change.before_job, first)], now)
    _confirm(tx, made, now)
    return made


def chain(
    row: AnyRow, *, before: bool, beside: AnyRow | None = None
) -> Select[int, str, float | None]:
    """Right and wrong jobs of the chain of one, before it or after it; the nearest first.

    With `beside` before or after that change's first bad job, which may be of another chain.
    """
    job, run = models.Job, models.Run
    moment, number = (beside.finished_at, beside.after_job) if beside else (row.finished_at, row.id)
    place = or_(
        job.finished_at < moment if before else job.finished_at > moment,
        and_(job.finished_at == moment, job.id < number if before else job.id > number),
    )
    order = (job.finished_at, job.id)
    return (
        select(job.id, job.state, job.finished_at)
        .join(run, run.id == job.run_id)
        .where(
            *(job.case_id == row.case_id, job.device_id == row.device_id),
            *(job.mode == row.mode, job.variant == row.variant),
            *(run.track == row.track, job.state.in_((State.PASSED, State.WRONG))),
            place,
        )
        .order_by(*(column.desc() if before else column for column in order))
    )


def links(tx: Connection, jobs: Sequence[int]) -> list[AnyRow]:
    """What `chain` asks of a job, for each of these."""
    job, run = models.Job, models.Run
    rows = tx.execute(
        select(
            *(job.id, job.case_id, job.device_id, job.mode, job.variant, job.state),
            *(job.finished_at, job.reason, run.track),
        )
        .join(run, run.id == job.run_id)
        .where(job.id.in_(jobs))
        .order_by(job.finished_at, job.id)
    )
    return list(rows)


def _wrong(tx: Connection, jobs: Sequence[int]) -> list[AnyRow]:
    return [row for row in links(tx, jobs) if row.state == State.WRONG]


def _is_known(tx: Connection, series: int, before: int) -> bool:
    table = models.ChangePoint
    known = select(table.id).where(table.series_id == series, table.before_job == before)
    return tx.execute(known.limit(1)).first() is not None


def _identity(row: AnyRow) -> Identity:
    return Identity(
        device_id=row.device_id,
        case_id=row.case_id,
        variant=row.variant,
        metric=VERDICT,
        environment_class="",  # right and wrong do not depend on clocks
        track=row.track,
    )


def _suspicion(series: int, before: int, row: AnyRow) -> Suspicion:
    return Suspicion(
        series=series,
        method=Method.VERDICT,
        direction=WRONG,
        before_job=before,
        after_job=row.id,
        note=row.reason,
    )


def _confirm(tx: Connection, changes: Sequence[int], now: float) -> None:
    table = models.ChangePoint
    rows = tx.execute(
        select(table.id, table.before_job, table.after_job).where(table.id.in_(changes))
    ).all()
    known = origins(tx, [job for row in rows for job in (row.before_job, row.after_job)])
    for row in rows:
        finding = Finding(
            state=Standing.CONFIRMED,
            note="its outputs were compared with the reference",
            cause=cause_of(known[row.before_job], known[row.after_job]),
        )
        settle(tx, row.id, finding, now)
