"""Deliveries of alerts: a row for each news of a regression and channel: each is sent once.

`vkbench_detection.regress.announcements` says which there are to be. A try is claimed before it is
made: of two schedulers one makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, update

from vkbench_db import schema
from vkbench_db.rows import fetch, insert_missing, select_record


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One piece of news of a regression through one channel."""

    regression: int
    state: str  # what it is: open, fixed, verified, again, grown; then "fixed 2" and so on
    channel: str
    created_at: float
    tries: int
    next_try_at: float
    delivered_at: float | None
    error: str  # of the last try


def expect(
    tx: Connection, news: Sequence[tuple[int, str, str]], now: float, first_try_at: float
) -> None:
    """Store that these are to be sent; those that are stored stay as they are."""
    rows = [
        {
            "regression_id": regression,
            "state": state,
            "channel": channel,
            "created_at": now,
            "tries": 0,
            "next_try_at": first_try_at,
            "error": "",
        }
        for regression, state, channel in news
    ]
    insert_missing(tx, schema.alert_delivery, rows)


def counts(tx: Connection, since: float) -> dict[str, int]:
    """How many deliveries came up since a moment, by channel."""
    delivery = schema.alert_delivery.c
    query = select(delivery.channel, func.count()).where(delivery.created_at > since)
    return dict(tx.execute(query.group_by(delivery.channel)).all())


def known_deliveries(tx: Connection, regressions: Collection[int]) -> set[tuple[int, str, str]]:
    """Deliveries of these regressions that are stored: regression, state, channel."""
    delivery = schema.alert_delivery.c
    rows = tx.execute(
        select(delivery.regression_id, delivery.state, delivery.channel).where(
            delivery.regression_id.in_(regressions)
        )
    )
    return {(row.regression_id, row.state, row.channel) for row in rows}


def due_deliveries(
    tx: Connection, channels: Sequence[str], now: float, *, most_tries: int, limit: int
) -> list[Delivery]:
    """Deliveries to try now, those together that came up, or failed, together."""
    delivery = schema.alert_delivery.c
    query = (
        _deliveries()
        .where(
            delivery.delivered_at.is_(None),
            delivery.next_try_at <= now,
            delivery.tries < most_tries,
            delivery.channel.in_(channels),
        )
        .order_by(
            *(delivery.next_try_at, delivery.tries, delivery.created_at),
            *(delivery.regression_id, delivery.state),
        )
        .limit(limit)
    )
    return fetch(tx, query, Delivery)


def claim(tx: Connection, delivery: Delivery, next_try_at: float) -> bool:
    """Claim a try; False if another scheduler has it. The next try is due at `next_try_at`."""
    table = schema.alert_delivery.c
    where = (*_is(delivery), table.tries == delivery.tries, table.delivered_at.is_(None))
    claimed = (
        update(schema.alert_delivery)
        .where(*where)
        .values(tries=table.tries + 1, next_try_at=next_try_at)
    )
    return tx.execute(claimed).rowcount > 0


def settle(tx: Connection, delivery: Delivery, delivered_at: float | None, error: str) -> None:
    """Store how a try ended."""
    values = {"delivered_at": delivered_at, "error": error}
    tx.execute(update(schema.alert_delivery).where(*_is(delivery)).values(**values))


def deliveries(tx: Connection, regression: int) -> list[Delivery]:
    """All deliveries of a regression, sent or not."""
    delivery = schema.alert_delivery.c
    query = (
        _deliveries()
        .where(delivery.regression_id == regression)
        .order_by(delivery.created_at, delivery.channel)
    )
    return fetch(tx, query, Delivery)


def _is(delivery: Delivery) -> tuple[ColumnElement[bool], ...]:
    table = schema.alert_delivery.c
    return (
        table.regression_id == delivery.regression,
        table.state == delivery.state,
        table.channel == delivery.channel,
    )


def _deliveries() -> Select[*tuple[Any, ...]]:
    delivery = schema.alert_delivery
    return select_record(Delivery, delivery, regression=delivery.c.regression_id)
