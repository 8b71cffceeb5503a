"""Which states of regressions are news that people are alerted to.

They are found by a sweep over the last events, so that the code that moves a regression need not
know who wants to hear of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, func, select

from vkbench_db import schema
from vkbench_db.upkeep import alerts
from vkbench_detection.changes.decisions import VERDICTS
from vkbench_detection.regress.stages import ANNOUNCED
from vkbench_detection.statistics.screen import Direction

DIRECTIONS = (Direction.SLOWER, *VERDICTS)  # improvements raise no alert
MEMORY_SECONDS = 86_400.0  # a channel that is new does not get older news
# Do not alert when the change was measured more than STALE_SECONDS before the regression opened: it
# comes from an import. The pass over histories takes a day or two.
STALE_SECONDS = 14 * 86_400.0


def unannounced(tx: Connection, channels: Sequence[str], now: float) -> list[tuple[int, str, str]]:
    """States of regressions (regression, state, channel) that are news and have no delivery yet."""
    news = _news(tx, now)
    known = alerts.known(tx, {regression for regression, _ in news})
    wanted = dict.fromkeys((*row, channel) for row in news for channel in channels)
    return [key for key in wanted if key not in known]


def _news(tx: Connection, now: float) -> list[tuple[int, str]]:
    event, regression = schema.regression_event.c, schema.regression.c
    found = tx.execute(
        select(event.regression_id, event.state, regression.opened_at)
        .join(schema.regression, regression.id == event.regression_id)
        .where(
            event.at >= now - MEMORY_SECONDS,
            event.state.in_(ANNOUNCED),
            regression.direction.in_(DIRECTIONS),
        )
        .order_by(event.id)
    ).all()
    measured = _measured(tx, {row.regression_id for row in found})
    return [
        (row.regression_id, row.state)
        for row in found
        if measured.get(row.regression_id, now) >= row.opened_at - STALE_SECONDS
    ]


def _measured(tx: Connection, regressions: Collection[int]) -> dict[int, float]:
    """When the last change of each regression was first measured."""
    member, change, job = schema.regression_member.c, schema.change_point.c, schema.job.c
    rows = tx.execute(
        select(member.regression_id, func.max(job.finished_at))
        .join(schema.change_point, change.id == member.change_point_id)
        .join(schema.job, job.id == change.after_job)
        .where(member.regression_id.in_(regressions))
        .group_by(member.regression_id)
    )
    return {regression: at for regression, at in rows if at is not None}
