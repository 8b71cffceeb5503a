"""The results that a reference means, as pieces of work: what was asked of which device.

Read from the tables by index: the public view joins eight of them, of which a comparison of
thousands of cases needs three. Medians alone are read, never samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, select

from vkbench.job import Mode, State
from vkbench_db.queries import is_newest
from vkbench_db.references import Kind, Reference
from vkbench_db.views import ATTEMPT, DEVICE, JOB, MEASUREMENT, SERIES

MOST_RESULTS = 30  # of one piece of work, the newest: enough for any test, and not months of them

Key: TypeAlias = tuple[int, int, str, str]  # device, case, mode, variant asked for
_Found: TypeAlias = Row[*tuple[Any, ...]]
SEVERITY = (State.WRONG, State.FAILED, State.SKIPPED, State.PASSED)
_STATE, _ENVIRONMENT, _METRIC, _VALUE, _LOW, _HIGH, _COUNT, _FLAG, _SERIES, _SIGMA = range(5, 15)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One metric of one piece of work on one side of a comparison."""

    # medians of its results in seconds, the oldest first; where devices are compared how many
    # times longer than the roof allows
    values: tuple[float, ...]
    low: float  # the lowest and the highest bound of their own intervals
    high: float
    count: int  # samples, of all results
    job: int  # of the newest
    flag: str  # why they should not count: only where none is without a flag
    series: int | None  # where the newest is placed
    sigma: float | None  # of one result in that series, relative; None where it is not known

    @property
    def value(self) -> float:
        """The median of the results."""
        return self.values[0] if len(self.values) == 1 else median(self.values)


@dataclass(frozen=True, kw_only=True)
class Work:
    """A piece of work as one side knows it."""

    state: State  # the gravest of its results'
    job: int  # the newest in that state
    environments: frozenset[str]  # hashes; empty where nothing ran
    sides: Mapping[str, Side]  # by metric


def works(tx: Connection, reference: Reference, *, by_roof: bool = False) -> dict[Key, Work]:
    """All finished work; `by_roof` forgets devices and takes times by what their roofs allow."""
    grouped: dict[Key, list[_Found]] = {}
    for row in tx.execute(_details(_chosen(reference), by_roof=by_roof)):
        key = (0 if by_roof else row[1], row[2], row[3], row[4])
        grouped.setdefault(key, []).append(row)
    return {key: _work(rows) for key, rows in grouped.items()}


def _work(rows: list[_Found]) -> Work:
    states = [State(row[_STATE]) for row in rows]
    state = states[0] if len(rows) == 1 else min(states, key=SEVERITY.index)
    return Work(
        state=state,
        job=max(row[0] for row, of_row in zip(rows, states, strict=True) if of_row is state),
        environments=frozenset(row[_ENVIRONMENT] for row in rows if row[_ENVIRONMENT]),
        sides=_sides(rows),
    )


def _sides(rows: list[_Found]) -> dict[str, Side]:
    """By metric; a time counts only with a right output, and a ratio only over a time."""
    timed: dict[str, list[_Found]] = {}
    for row in rows:
        if row[_METRIC] and row[_VALUE] and row[_STATE] == State.PASSED:
            timed.setdefault(row[_METRIC], []).append(row)
    return {metric: _side(found) for metric, found in timed.items()}


def _side(rows: list[_Found]) -> Side:
    rows = [row for row in rows if not row[_FLAG]] or rows
    last = rows[-1]
    return Side(
        values=tuple(row[_VALUE] for row in rows),
        low=min(row[_LOW] for row in rows),
        high=max(row[_HIGH] for row in rows),
        count=sum(row[_COUNT] for row in rows),
        job=last[0],
        flag=last[_FLAG],
        series=last[_SERIES],
        sigma=last[_SIGMA],
    )


def _details(chosen: Sequence[ColumnElement[bool]], *, by_roof: bool) -> Select[Any]:
    """Rows of the chosen jobs, a metric each; in the order of `_STATE` and so on."""
    job, attempt, timing = JOB.c, ATTEMPT.c, MEASUREMENT.c
    times: list[ColumnElement[Any]] = [timing.seconds, timing.low, timing.high]
    if by_roof:  # over the time that the roof allows
        times = [time / func.nullif(timing.roof_fraction * timing.seconds, 0) for time in times]
    return (
        select(
            *(job.id, job.device_id, job.case_id, job.mode, job.variant, job.state),
            *(attempt.environment, timing.metric, *times, timing["count"]),
            *(timing.flag, timing.series_id, SERIES.c.sigma),
        )
        .select_from(JOB)
        .outerjoin(ATTEMPT, (attempt.job_id == job.id) & (attempt.token == job.settled_token))
        .outerjoin(MEASUREMENT, timing.job_id == job.id)
        .outerjoin(SERIES, SERIES.c.id == timing.series_id)
        .where(job.mode != Mode.PAIRED, job.finished_at.is_not(None), *chosen)
        .order_by(job.finished_at, job.id)
    )


def _chosen(reference: Reference) -> list[ColumnElement[bool]]:
    """Which jobs a reference means."""
    job = JOB.c
    match reference.kind:
        case Kind.RUN:
            return [job.run_id == reference.run]
        case Kind.BUNDLE:
            return [job.id.in_(_newest_of(ATTEMPT.c.bundle == reference.bundle))]
        case Kind.DRIVER:
            return [job.id.in_(_newest_of(ATTEMPT.c.environment.in_(reference.environments)))]
        case Kind.DEVICE:
            device = select(DEVICE.c.id).where(DEVICE.c.key == reference.device)
            return [job.device_id == device.scalar_subquery(), is_newest()]
        case Kind.DATE:
            return [job.id.in_(_latest_until(reference.until))]


def _newest_of(attempts: ColumnElement[bool]) -> Select[Any]:
    """The newest jobs of each piece of work among those that such attempts settled."""
    job, attempt = JOB.c, ATTEMPT.c
    work = (job.device_id, job.case_id, job.mode, job.variant)
    ranked = (
        select(
            job.id,
            func.row_number()
            .over(partition_by=work, order_by=(job.finished_at.desc(), job.id.desc()))
            .label("rank"),
        )
        .join(ATTEMPT, (attempt.job_id == job.id) & (attempt.token == job.settled_token))
        .where(attempts, job.finished_at.is_not(None))
        .subquery()
    )
    return select(ranked.c.id).where(ranked.c.rank <= MOST_RESULTS)


def _latest_until(moment: float) -> Select[Any]:
    """The last job of each piece of work that ended before a moment: one pass over an index."""
    job, other = JOB.c, JOB.alias("other")
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
