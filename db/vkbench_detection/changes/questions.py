"""Questions to the change points that are stored; nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.states import DECIDED, UNDECIDED, ChangeState


def undecided_directions(tx: Connection, series: Iterable[int]) -> set[tuple[int, str]]:
    """Series and directions with a suspicion that is not decided yet."""
    table = schema.change_point.c
    rows = tx.execute(
        select(table.series_id, table.direction).where(
            table.series_id.in_(set(series)), table.state.in_(UNDECIDED)
        )
    )
    return {(row.series_id, row.direction) for row in rows}


@dataclass(frozen=True, kw_only=True)
class LookedInto:
    """A change that was decided, and not confirmed."""

    id: int
    series_id: int
    after_job: int
    direction: str
    is_explained: bool  # by a kernel or an environment that moved there
    decided_at: float  # the last time


def looked_into(tx: Connection, series: Iterable[int]) -> list[LookedInto]:
    """The changes of these series that were decided, and not confirmed, the newest first."""
    table, event = schema.change_point.c, schema.change_point_event.c
    is_explained = or_(
        table.before_kernel != table.after_kernel,
        table.before_environment != table.after_environment,
    )
    decided_at = (
        select(func.max(event.at))
        .where(event.change_point_id == table.id, event.state.in_(DECIDED))
        .scalar_subquery()
    )
    query = (
        select_record(
            LookedInto, schema.change_point, is_explained=is_explained, decided_at=decided_at
        )
        .where(
            table.series_id.in_(set(series)),
            table.state.in_((ChangeState.DISMISSED, ChangeState.AMBIGUOUS)),
        )
        .order_by(table.id.desc())
    )
    return fetch(tx, query, LookedInto)


def begins_level() -> ColumnElement[bool]:
    """The condition of changes with which a new level of their series begins.

    A decay begins none: it is the sum of what was below every threshold.
    """
    table = schema.change_point.c
    return and_(table.state == ChangeState.CONFIRMED, table.method != Method.DECAY)


def level_jobs(tx: Connection, series: int) -> set[int]:
    """The first job of each level of a series but the first level."""
    table = schema.change_point.c
    query = select(table.after_job).where(table.series_id == series, begins_level())
    return set(tx.execute(query).scalars())


def is_any_suspected(tx: Connection) -> bool:
    """Whether any suspicion waits to be measured again."""
    table = schema.change_point.c
    query = select(table.id).where(table.state == ChangeState.SUSPECTED).limit(1)
    return tx.execute(query).first() is not None


def is_known(tx: Connection, series: int, before_job: int, direction: str) -> bool:
    """Whether a change of a series in a direction is stored that begins after this job."""
    table = schema.change_point.c
    query = select(table.id).where(
        *(table.series_id == series, table.before_job == before_job),
        table.direction == direction,
    )
    return tx.execute(query.limit(1)).first() is not None
