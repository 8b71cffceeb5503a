"""The results that a reference means, as pieces of work: what was asked of which device.

Read from the tables by index: the public view joins eight of them, of which a comparison of
thousands of cases needs three. Medians alone are read, never samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from vkbench.job import SEVERITY, JobState, Mode
from vkbench_db import schema
from vkbench_detection.compare.references import Reference, ReferenceKind

MOST_RESULTS = 12  # of one piece of work, the newest: enough for any test, and not months of them

Key: TypeAlias = tuple[int, int, str, str]  # device, case, mode, variant asked for
# the key, then metric, job, state, environment, value, low, high, samples, flag, series, roof
_Found: TypeAlias = tuple[
    *tuple[int, int, str, str, str, int, str, str | None, float, float, float, int, str],
    *tuple[int | None, float | None],
]
_METRIC: Final = 4
_JOB: Final = 5
_STATE: Final = 6
_ENVIRONMENT: Final = 7
_VALUE: Final = 8
_LOW: Final = 9
_HIGH: Final = 10
_SAMPLES: Final = 11
_FLAG: Final = 12
_ROOF: Final = 14
_PASSED = str(JobState.PASSED)


# Tuples and no dataclasses, here and in `comparison`: tens of thousands are made for one answer.
class Side(NamedTuple):
    """One metric of one piece of work on one side of a comparison."""

    value: float  # the median of these:
    values: tuple[float, ...]  # medians of its results in seconds, in the order of jobs
    low: float  # the lowest and the highest bound of their own intervals
    high: float
    samples: int  # of all results
    job: int  # of the newest
    flag: str  # why they should not count: only where none is without a flag
    series: int | None  # where the newest is placed
    roof: float | None = None  # share of the device's roof, the median of these
    sigma: float | None = None  # of one result in that series, relative, once it was looked up
    device_sigma: float | None = None  # what its device's results usually have


class ComparedWork(NamedTuple):
    """A piece of work as one side knows it."""

    state: str  # the gravest of its results'
    job: int  # the newest in that state
    environments: tuple[str, ...]  # hashes, sorted; empty where nothing ran
    sides: Mapping[str, Side]  # by metric


def works(
    tx: Connection, reference: Reference, *, metrics: Sequence[str] = ()
) -> dict[Key, ComparedWork]:
    """All finished work, timed by these metrics or by all."""
    grouped: dict[Key, list[_Found]] = {}
    # straight from the driver: a Row more for each of thousands is a tenth of the time
    found = tx.execute(_details(_chosen(reference), metrics))
    # and in their order from here: PostgreSQL starts a worker to sort them
    rows: list[_Found] = sorted(found.cursor.fetchall(), key=_job_of)
    for row in rows:
        known = grouped.get(key := row[:4])
        if known is None:
            grouped[key] = [row]
        else:
            known.append(row)
    return {
        key: _of_job(rows) if rows[0][_JOB] == rows[-1][_JOB] else _of_jobs(rows)
        for key, rows in grouped.items()
    }


_job_of = itemgetter(_JOB)


def _of_job(rows: list[_Found]) -> ComparedWork:
    """The work of one job: each metric once. Most are so, and there are thousands."""
    job, state, environment = rows[0][_JOB:_VALUE]
    sides = {}
    for row in rows:
        if _is_timed(row):
            value, low, high, samples, flag, series, roof = row[_VALUE:]
            sides[row[_METRIC]] = Side(value, (value,), low, high, samples, job, flag, series, roof)
    return ComparedWork(state, job, (environment,) if environment else (), sides)


def _of_jobs(rows: list[_Found]) -> ComparedWork:
    by_metric: dict[str, list[_Found]] = {}
    for row in rows:
        if _is_timed(row):
            by_metric.setdefault(row[_METRIC], []).append(row)
    state = min({row[_STATE] for row in rows}, key=_severity)
    return ComparedWork(
        state,
        max(row[_JOB] for row in rows if row[_STATE] == state),
        tuple(sorted({row[_ENVIRONMENT] for row in rows if row[_ENVIRONMENT]})),
        {metric: _side(found) for metric, found in by_metric.items()},
    )


def _is_timed(row: _Found) -> bool:
    """A time counts only with a right output, and a ratio only of times above zero."""
    return bool(row[_VALUE]) and row[_STATE] == _PASSED


def _side(found: list[_Found]) -> Side:
    rows = [row for row in found if not row[_FLAG]] or found
    *_, flag, series, _ = rows[-1]
    values = tuple(row[_VALUE] for row in rows)
    shares = [row[_ROOF] for row in rows if row[_ROOF]]
    return Side(
        value=median(values),
        values=values,
        low=min(row[_LOW] for row in rows),
        high=max(row[_HIGH] for row in rows),
        samples=sum(row[_SAMPLES] for row in rows),
        job=rows[-1][_JOB],
        flag=flag,
        series=series,
        roof=median(shares) if shares else None,
    )


def _severity(state: str) -> int:
    return SEVERITY.index(JobState(state))


def _details(
    chosen: Sequence[ColumnElement[bool]], metrics: Sequence[str]
) -> Select[*tuple[Any, ...]]:
    """Rows of the chosen jobs, a metric each: their key, the metric, what `_Found` has."""
    job, attempt, timing = schema.job.c, schema.attempt.c, schema.measurement.c
    asked = (timing.metric.in_(metrics),) if metrics else ()
    return (
        select(
            *(job.device_id, job.case_id, job.mode, job.variant, timing.metric),
            *(job.id, job.state, attempt.environment, timing.seconds, timing.low, timing.high),
            *(timing.count, timing.flag, timing.series_id, timing.roof_fraction),
        )
        .select_from(schema.job)
        .outerjoin(
            schema.attempt, (attempt.job_id == job.id) & (attempt.token == job.settled_token)
        )
        .outerjoin(schema.measurement, and_(timing.job_id == job.id, *asked))
        .where(job.mode.not_in((Mode.PAIRED, Mode.PEER)), job.finished_at.is_not(None), *chosen)
    )


def _chosen(reference: Reference) -> list[ColumnElement[bool]]:
    """The conditions for the jobs that a reference means."""
    job = schema.job.c
    match reference.kind:
        case ReferenceKind.RUN:
            return [job.run_id == reference.run]
        case ReferenceKind.BUNDLE:
            return [job.id.in_(_newest_of(schema.attempt.c.bundle == reference.bundle))]
        case ReferenceKind.DRIVER:
            return [
                job.id.in_(_newest_of(schema.attempt.c.environment.in_(reference.environments)))
            ]
        case ReferenceKind.DEVICE:
            latest = select(schema.latest.c.job_id).join(schema.device)
            return [job.id.in_(latest.where(schema.device.c.key == reference.device))]
        case ReferenceKind.DATE:
            return [job.id.in_(_latest_until(reference.until))]


def _newest_of(attempts: ColumnElement[bool]) -> Select[Any]:
    """The newest jobs of each piece of work among those that such attempts settled."""
    job, attempt = schema.job.c, schema.attempt.c
    work = (job.device_id, job.case_id, job.mode, job.variant)
    ranked = (
        select(
            job.id,
            func.row_number()
            .over(partition_by=work, order_by=(job.finished_at.desc(), job.id.desc()))
            .label("rank"),
        )
        .join(schema.attempt, (attempt.job_id == job.id) & (attempt.token == job.settled_token))
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
