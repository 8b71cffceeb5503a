"""The results that a reference means, as pieces of work: what was asked of which device.

Read from the tables by index: the public view joins eight of them, of which a comparison of
thousands of cases needs three. Medians alone are read, never samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from vkbench.job import Arm, Mode
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_detection.changes.questions import begins_level
from vkbench_detection.compare.references import (
    LatestBefore,
    LatestOfDevice,
    Reference,
    WholeRun,
    ran_arm,
)
from vkbench_detection.compare.sides import (
    ComparedWork,
    Cuts,
    Key,
    TimedRow,
    work_of_job,
    work_of_jobs,
)

MOST_RESULTS = 12  # of one piece of work, the newest: enough for any test, and not months of them
MOST_READ = 10_000  # jobs of an arm that are all read: ranking them in SQL reads each twice


def works(
    tx: Connection, reference: Reference, *, metrics: Sequence[str] = (), device: int | None = None
) -> dict[Key, ComparedWork]:
    """All finished work, timed by these metrics or by all; with a device's number, its own."""
    grouped: dict[Key, list[TimedRow]] = {}
    chosen = [_is_of(tx, reference)]
    if device is not None:
        # a sum has no index: SQLite would read all jobs of the device by it
        chosen.append(schema.job.c.device_id + 0 == device)
    _add(grouped, tx, _details(chosen, metrics))
    most = MOST_RESULTS if isinstance(reference.chosen, Arm) else None
    return _pool_rows(tx, grouped, most)


def works_of_jobs(
    tx: Connection, jobs: Iterable[int], *, metrics: Sequence[str] = ()
) -> dict[Key, ComparedWork]:
    """The finished work of these jobs, timed by these metrics or by all."""
    grouped: dict[Key, list[TimedRow]] = {}
    for page in batches(sorted(set(jobs))):
        _add(grouped, tx, _details([schema.job.c.id.in_(page)], metrics))
    return _pool_rows(tx, grouped)


def _add(
    grouped: dict[Key, list[TimedRow]], tx: Connection, question: Select[*tuple[Any, ...]]
) -> None:
    # straight from the driver: of thousands, SQLAlchemy makes no rows of its own
    for row in map(TimedRow._make, tx.execute(question).cursor.fetchall()):
        known = grouped.get(key := row[:4])
        if known is None:
            grouped[key] = [row]
        else:
            known.append(row)


def _pool_rows(
    tx: Connection, grouped: dict[Key, list[TimedRow]], most: int | None = None
) -> dict[Key, ComparedWork]:
    """Pool each piece of work: all its jobs, or so many of the newest."""
    repeated: dict[Key, list[TimedRow]] = {}
    for key, rows in grouped.items():
        if len(rows) > 1 and len(jobs := {row.job for row in rows}) > 1:
            rows.sort(key=_moment)  # in their order from here: PostgreSQL starts a worker
            if most is not None and len(jobs) > most:
                newest = set(list(dict.fromkeys(row.job for row in rows))[-most:])
                rows = [row for row in rows if row.job in newest]
            repeated[key] = rows
    cuts = _cuts(tx, {row.series for rows in repeated.values() for row in rows})
    return {
        key: work_of_jobs(repeated[key], cuts) if key in repeated else work_of_job(rows)
        for key, rows in grouped.items()
    }


_moment = attrgetter("ended", "job")


def _cuts(tx: Connection, series: Iterable[int | None]) -> Cuts:
    """When new levels of these series began."""
    change, job = schema.change_point.c, schema.job.c
    began: dict[int, list[object]] = {}
    for page in batches(sorted(number for number in set(series) if number is not None)):
        query = (
            select(change.series_id, job.finished_at)
            .join(schema.job, job.id == change.after_job)
            .where(
                *(change.series_id.in_(page), begins_level(), job.finished_at.is_not(None)),
            )
        )
        for number, moment in tx.execute(query).cursor.fetchall():
            began.setdefault(number, []).append(moment)
    return began


def _details(
    chosen: Sequence[ColumnElement[bool]], metrics: Sequence[str]
) -> Select[*tuple[Any, ...]]:
    """Rows of the chosen jobs, a metric each: their key, the metric, what `TimedRow` has."""
    job, attempt, timing = schema.job.c, schema.attempt.c, schema.measurement.c
    of_metrics = (timing.metric.in_(metrics),) if metrics else ()
    return (
        select(
            *(job.device_id, job.case_id, job.mode, job.variant, timing.metric),
            *(job.id, job.finished_at, job.state),
            *(attempt.variant, attempt.kernel_sha, attempt.settings, attempt.environment),
            *(timing.seconds, timing.low, timing.high, timing.count),
            *(timing.flag, timing.series_id, timing.roof_fraction),
        )
        .select_from(schema.job)
        .outerjoin(schema.attempt, schema.is_settling)
        .outerjoin(schema.measurement, and_(timing.job_id == job.id, *of_metrics))
        .where(job.mode.not_in((Mode.PAIRED, Mode.PEER)), job.finished_at.is_not(None), *chosen)
    )


def _is_of(tx: Connection, reference: Reference) -> ColumnElement[bool]:
    """Whether a job is one of those that a reference means."""
    job = schema.job.c
    match reference.chosen:
        case Arm() as arm:
            ran = ran_arm(tx, arm)
            return job.id.in_(_newest_of(ran)) if _is_over(tx, ran, MOST_READ) else ran
        case WholeRun(number=run):
            return job.run_id == run
        case LatestOfDevice(key=device):
            latest = select(schema.latest.c.job_id).join(schema.device)
            return job.id.in_(latest.where(schema.device.c.key == device))
        case LatestBefore(moment=moment):
            return job.id.in_(_latest_until(moment))


def _is_over(tx: Connection, attempts: ColumnElement[bool], most: int) -> bool:
    """Whether there are more of these attempts: an index tells, and no more than so many rows."""
    attempted = select(schema.attempt.c.job_id).where(attempts).limit(most + 1).subquery()
    return tx.execute(select(func.count()).select_from(attempted)).scalar_one() > most


def _newest_of(attempts: ColumnElement[bool]) -> Select[Any]:
    """The newest jobs of each piece of work among those that such attempts settled."""
    job = schema.job.c
    work = (job.device_id, job.case_id, job.mode, job.variant)
    ranked = (
        select(
            job.id,
            func.row_number()
            .over(partition_by=work, order_by=(job.finished_at.desc(), job.id.desc()))
            .label("rank"),
        )
        .join(schema.attempt, schema.is_settling)
        .where(attempts, job.finished_at.is_not(None))
        .subquery()
    )
    return select(ranked.c.id).where(ranked.c.rank <= MOST_RESULTS)


def _latest_until(moment: float) -> Select[Any]:
    """The last job of each piece of work that ended before a moment: one pass over an index."""
    job, other = schema.job.c, schema.job.alias("other")
    work = ("case_id", "device_id", "mode", "variant")
    ended = (
        select(*(job[name] for name in work), func.max(job.finished_at).label("finished_at"))
        .where(job.finished_at.is_not(None), job.finished_at < moment)
        .group_by(*(job[name] for name in work))
        .subquery()
    )
    same = and_(*(other.c[name] == ended.c[name] for name in (*work, "finished_at")))
    return (
        select(func.max(other.c.id))
        .select_from(ended)
        .join(other, same)
        .group_by(*(other.c[name] for name in work))
    )
