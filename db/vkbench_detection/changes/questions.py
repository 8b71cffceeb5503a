"""Questions to the change points that are stored; nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_detection.changes.states import UNDECIDED, ChangeState


def undecided(tx: Connection, series: Iterable[int]) -> set[tuple[int, str]]:
    """Series and directions with a suspicion that is not decided yet."""
    table = schema.change_point.c
    rows = tx.execute(
        select(table.series_id, table.direction).where(
            table.series_id.in_(set(series)), table.state.in_(UNDECIDED)
        )
    )
    return {(row.series_id, row.direction) for row in rows}


def is_any_suspected(tx: Connection) -> bool:
    """Whether any suspicion waits to be measured again."""
    table = schema.change_point.c
    asked = select(table.id).where(table.state == ChangeState.SUSPECTED).limit(1)
    return tx.execute(asked).first() is not None


def is_known(tx: Connection, series: int, before_job: int, direction: str) -> bool:
    """Whether a change of a series in a direction is stored that begins after this job."""
    table = schema.change_point.c
    asked = select(table.id).where(
        *(table.series_id == series, table.before_job == before_job),
        table.direction == direction,
    )
    return tx.execute(asked.limit(1)).first() is not None
