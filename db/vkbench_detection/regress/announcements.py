"""Which events of regressions are news that people are alerted to.

A regression opens, is back after it was fixed, has grown, is fixed, is verified. News are found by
a sweep over the last events, so that the code that moves a regression need not know who wants to
hear of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from vkbench_db import schema
from vkbench_db.upkeep import alerts
from vkbench_detection.changes.decisions import VERDICTS
from vkbench_detection.regress.stages import ANNOUNCED, RegressionStage
from vkbench_detection.statistics.screen import Direction

DIRECTIONS = (Direction.SLOWER, *VERDICTS)  # improvements raise no alert
MEMORY_SECONDS = 86_400.0  # a channel that is new does not get older news
# Do not alert when the change was measured more than STALE_SECONDS before the regression opened: it
# comes from an import. The pass over histories takes a day or two.
STALE_SECONDS = 14 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """An event of a regression that people hear of."""

    regression: int
    name: str  # of its delivery: its kind, numbered from the second of this kind on: "grown 2"
    kind: str  # one of ANNOUNCED
    note: str


def unannounced_news(
    tx: Connection, channels: Sequence[str], now: float
) -> list[tuple[int, str, str]]:
    """News of regressions (regression, name, channel) that have no delivery yet."""
    news = _news(tx, now)
    known = alerts.known_deliveries(tx, {regression for regression, _ in news})
    expected = dict.fromkeys((*row, channel) for row in news for channel in channels)
    return [key for key in expected if key not in known]


def announcements(tx: Connection, regressions: Collection[int]) -> dict[int, list[Announcement]]:
    """All news that there ever were of these regressions, in their order."""
    event = schema.regression_event.c
    rows = tx.execute(
        select(event.regression_id, event.state, event.note)
        .where(event.regression_id.in_(regressions), event.state.in_(ANNOUNCED))
        .order_by(event.id)
    )
    by_regression: dict[int, list[Announcement]] = {}
    times: Counter[tuple[int, str]] = Counter()
    for row in rows:
        times[row.regression_id, row.state] += 1
        announcement = Announcement(
            regression=row.regression_id,
            name=_name(row.state, times[row.regression_id, row.state]),
            kind=row.state,
            note=row.note,
        )
        by_regression.setdefault(row.regression_id, []).append(announcement)
    return by_regression


def _name(kind: str, time: int) -> str:
    """The name of a delivery: that a regression is open is told once, whoever opens it again."""
    return kind if time == 1 or kind == RegressionStage.OPEN else f"{kind} {time}"


def _news(tx: Connection, now: float) -> list[tuple[int, str]]:
    """Regression and name of what happened lately, in its order."""
    event, regression = schema.regression_event.c, schema.regression.c
    rows = tx.execute(
        select(event.regression_id, regression.opened_at, func.count().label("events"))
        .join(schema.regression, regression.id == event.regression_id)
        .where(
            event.at >= now - MEMORY_SECONDS,
            event.state.in_(ANNOUNCED),
            regression.direction.in_(DIRECTIONS),
        )
        .group_by(event.regression_id, regression.opened_at)
        .order_by(func.min(event.id))
    ).all()
    measured = _find_measured_times(tx, {row.regression_id for row in rows})
    news = announcements(tx, {row.regression_id for row in rows})
    return [
        (row.regression_id, announcement.name)
        for row in rows
        if measured.get(row.regression_id, now) >= row.opened_at - STALE_SECONDS
        for announcement in news[row.regression_id][-row.events :]
    ]


def _find_measured_times(tx: Connection, regressions: Collection[int]) -> dict[int, float]:
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
