"""The results on both sides of changes, for pictures of them: read from the histories' index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, func, not_, select, tuple_

from vkbench_db import schema
from vkbench_db.batches import batches


@dataclass(frozen=True)
class TimedResult:
    """A result that counts in its series."""

    job: int
    measured_at: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class BothSides:
    """The results before a change and from it on, each the oldest first."""

    before: list[TimedResult] = field(default_factory=list)
    after: list[TimedResult] = field(default_factory=list)


def read_both_sides(tx: Connection, changes: Sequence[int], most: int) -> dict[int, BothSides]:
    """At most `most` counting results on either side of these changes, by change.

    A change of verdicts has no times: it is left out.
    """
    sides: dict[int, BothSides] = {}
    for page in batches(dict.fromkeys(changes)):
        for is_after in (False, True):
            _read_side(tx, page, most, sides, is_after=is_after)
    return sides


def _read_side(
    tx: Connection,
    changes: Sequence[int],
    most: int,
    sides: dict[int, BothSides],
    *,
    is_after: bool,
) -> None:
    change, timing = schema.change_point.c, schema.measurement.c
    first = schema.measurement.alias("first").c  # the first result of the new level
    moment, first_moment = (timing.measured_at, timing.job_id), (first.measured_at, first.job_id)
    is_earlier = tuple_(*moment) < tuple_(*first_moment)
    nearest = [column.asc() if is_after else column.desc() for column in moment]
    ranked = (
        select(
            change.id.label("change"),
            timing.job_id,
            timing.measured_at,
            timing.seconds,
            func.row_number().over(partition_by=change.id, order_by=nearest).label("place"),
        )
        .select_from(schema.change_point)
        .join(
            first.job_id.table,
            and_(first.series_id == change.series_id, first.job_id == change.after_job),
        )
        .join(schema.measurement, timing.series_id == change.series_id)
        .where(
            change.id.in_(changes),
            timing.flag == "",
            not_(is_earlier) if is_after else is_earlier,
        )
        .subquery()
    )
    rows = tx.execute(
        select(*(ranked.c[name] for name in ("change", "job_id", "measured_at", "seconds")))
        .where(ranked.c.place <= most)
        .order_by(ranked.c.change, ranked.c.measured_at, ranked.c.job_id)
    )
    for number, job, measured_at, seconds in rows:
        both = sides.setdefault(number, BothSides())
        results = both.after if is_after else both.before
        results.append(TimedResult(job, measured_at, seconds))
