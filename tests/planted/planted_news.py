"""Regressions that come into states, as rows alone: what alerts and issues tell of."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.upkeep import alerts

NOW = 1_790_000_000.0


def happens(
    database: Database, state: str = "open", *, direction: str = "slower", at: float = NOW
) -> int:
    """A regression that comes into a state."""
    with database.transaction() as tx:
        row = {
            "group_key": "k",
            "direction": direction,
            "cause": "kernel",
            "title": "copy f32 is 10 % slower",
            "state": state,
            "opened_at": at,
            "changed_at": at,
        }
        made = insert(schema.regression).values(**row).returning(schema.regression.c.id)
        regression = int(tx.execute(made).scalar_one())
        moves(tx, regression, state, at)
    return regression


def moves(tx: Connection, regression: int, state: str, at: float = NOW, note: str = "") -> None:
    event = {"regression_id": regression, "at": at, "state": state, "user_name": "", "note": note}
    tx.execute(insert(schema.regression_event).values(**event))


def deliveries(database: Database, regression: int) -> list[alerts.Delivery]:
    with database.reading() as tx:
        return alerts.deliveries(tx, regression)
