"""What is to be told of regressions: a row for each state and channel, so that each is told once.

Rows come from a sweep over what lately happened, so that whoever moves a regression need not know
who wants to hear of it. A try is claimed before it is made: of two schedulers one makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select, update

from vkbench_db import models
from vkbench_db.rows import insert_missing

STATES = ("open", "fixed", "verified")  # that people are told of
DIRECTIONS = ("slower", "wrong")  # improvements are nobody's emergency
MEMORY_SECONDS = 86_400.0  # what happened longer ago is no news to a channel that is new
# Of a change that was measured so long before its regression was opened nobody is told: somebody
# brought in old results. A nightly pass over histories takes a day or two.
STALE_SECONDS = 14 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One state of a regression for one channel."""

    regression: int
    state: str
    channel: str
    created_at: float
    tries: int
    next_try_at: float
    delivered_at: float | None
    error: str  # of the last try


def missing(tx: Connection, channels: Sequence[str], now: float) -> list[tuple[int, str, str]]:
    """States of regressions (regression, state, channel) that are news and are not expected yet."""
    event, regression, delivery = models.RegressionEvent, models.Regression, models.AlertDelivery
    found = tx.execute(
        select(event.regression_id, event.state, regression.opened_at)
        .join(regression, regression.id == event.regression_id)
        .where(
            event.at >= now - MEMORY_SECONDS,
            event.state.in_(STATES),
            regression.direction.in_(DIRECTIONS),
        )
        .order_by(event.id)
    ).all()
    measured = _measured(tx, {row.regression_id for row in found})
    news = [
        (row.regression_id, row.state)
        for row in found
        if measured.get(row.regression_id, now) >= row.opened_at - STALE_SECONDS
    ]
    ids = {regression for regression, _ in news}
    rows = tx.execute(
        select(delivery.regression_id, delivery.state, delivery.channel).where(
            delivery.regression_id.in_(ids)
        )
    )
    known = {tuple(row) for row in rows}
    wanted = dict.fromkeys((*row, channel) for row in news for channel in channels)
    return [key for key in wanted if key not in known]


def expect(tx: Connection, wanted: Sequence[tuple[int, str, str]], now: float) -> None:
    """Note that these states are to be told; those that are noted stay as they are."""
    rows = [
        {
            "regression_id": regression,
            "state": state,
            "channel": channel,
            "created_at": now,
            "tries": 0,
            "next_try_at": now,
            "error": "",
        }
        for regression, state, channel in wanted
    ]
    insert_missing(tx, models.AlertDelivery, rows)


def due(
    tx: Connection, channels: Sequence[str], now: float, *, most_tries: int, limit: int
) -> list[Delivery]:
    """What is to be tried now, oldest first."""
    delivery = models.AlertDelivery
    rows = tx.execute(
        select(delivery.__table__)
        .where(
            delivery.delivered_at.is_(None),
            delivery.next_try_at <= now,
            delivery.tries < most_tries,
            delivery.channel.in_(channels),
        )
        .order_by(delivery.created_at, delivery.regression_id, delivery.state)
        .limit(limit)
    )
    return [_delivery(row) for row in rows]


def claim(tx: Connection, delivery: Delivery, next_try_at: float) -> bool:
    """Whether this try is ours; if we die of it, the next one comes at `next_try_at`."""
    table = models.AlertDelivery
    where = (*_is(delivery), table.tries == delivery.tries, table.delivered_at.is_(None))
    claimed = update(table).where(*where).values(tries=table.tries + 1, next_try_at=next_try_at)
    return tx.execute(claimed).rowcount > 0


def settle(tx: Connection, delivery: Delivery, delivered_at: float | None, error: str) -> None:
    """Note how a try ended."""
    values = {"delivered_at": delivered_at, "error": error}
    tx.execute(update(models.AlertDelivery).where(*_is(delivery)).values(**values))


def deliveries(tx: Connection, regression: int) -> list[Delivery]:
    """All that was or is to be told of a regression."""
    delivery = models.AlertDelivery
    rows = tx.execute(
        select(delivery.__table__)
        .where(delivery.regression_id == regression)
        .order_by(delivery.created_at, delivery.channel)
    )
    return [_delivery(row) for row in rows]


def _measured(tx: Connection, regressions: Collection[int]) -> dict[int, float]:
    """When the last of each regression's changes was first seen."""
    member, change, job = models.RegressionMember, models.ChangePoint, models.Job
    rows = tx.execute(
        select(member.regression_id, func.max(job.finished_at))
        .join(change, change.id == member.change_point_id)
        .join(job, job.id == change.after_job)
        .where(member.regression_id.in_(regressions))
        .group_by(member.regression_id)
    )
    return {regression: at for regression, at in rows if at is not None}


def _is(delivery: Delivery) -> tuple[ColumnElement[bool], ...]:
    table = models.AlertDelivery
    return (
        table.regression_id == delivery.regression,
        table.state == delivery.state,
        table.channel == delivery.channel,
    )


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        regression=row.regression_id,
        state=row.state,
        channel=row.channel,
        created_at=row.created_at,
        tries=row.tries,
        next_try_at=row.next_try_at,
        delivered_at=row.delivered_at,
        error=row.error,
    )
