"""The screen of each series steps over its new results; its alarms become suspicions.

A result that is older than the last one that was screened is left to the pass over the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, func, literal, or_, select

from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.schema.moment import Moment
from vkbench_detection.changes.decisions import Method, Suspicion
from vkbench_detection.changes.questions import undecided
from vkbench_detection.changes.transitions import suspect
from vkbench_detection.series import screens
from vkbench_detection.series.points import Point
from vkbench_detection.series.screens import Screen
from vkbench_detection.statistics.screen import Alarm

BATCH = 200  # series whose new results are read at once


def screen(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Screen what is new in these series; return the ids of new change points."""
    made: list[int] = []
    for batch in batches(sorted(set(series)), BATCH):
        made += _screen(tx, batch, now)
    return made


def behind(tx: Connection) -> list[int]:
    """Series with results that were placed and not screened: the process that placed them ended."""
    measurement, table = schema.measurement.c, schema.series.c
    newer = select(measurement.job_id).where(
        measurement.series_id == table.id,
        measurement.flag == "",
        measurement.measured_at > func.coalesce(table.screened_at, literal(0.0, Moment)),
    )
    # whatever was placed also waits for the pass over its history: an index has those few series
    asked = select(table.id).where(table.scan_due_at.is_not(None), newer.exists())
    return list(tx.execute(asked).scalars())


def _screen(tx: Connection, series: Sequence[int], now: float) -> list[int]:
    stored = screens.load(tx, series)
    after: dict[int, Screen] = {}
    found: list[Suspicion] = []
    for number, results in _new(tx, series).items():
        after[number], suspicions = _stepped(number, stored[number], results)
        found += suspicions
    screens.store(tx, after)
    known = undecided(tx, {each.series for each in found})
    return suspect(tx, _first(found, known), now)


def _stepped(
    series: int, screen: Screen, results: Iterable[Point]
) -> tuple[Screen, list[Suspicion]]:
    found = []
    for point in results:
        screen, alarm = screen.stepped(point)
        if alarm:
            found.append(_suspicion(series, screen, alarm))
    return screen, found


def _suspicion(series: int, screen: Screen, alarm: Alarm) -> Suspicion:
    before, after = screen.neighbours(alarm.since)
    return Suspicion(
        series=series,
        method=Method.SCREEN,
        direction=alarm.direction,
        before_job=before,
        after_job=after,
        ratio=alarm.ratio,
        note=f"{alarm.rule}: {alarm.ratio:.4f} of the level, the last {alarm.sigmas:+.1f} sigma",
    )


def _first(found: Iterable[Suspicion], known: set[tuple[int, str]]) -> list[Suspicion]:
    """The first suspicion of each series and direction that has no undecided one yet."""
    first: dict[tuple[int, str], Suspicion] = {}
    for each in found:
        first.setdefault((each.series, str(each.direction)), each)
    return [each for key, each in first.items() if key not in known]


def _new(tx: Connection, series: Sequence[int]) -> Mapping[int, list[Point]]:
    """Results after the last one that was screened, in their order, by series."""
    measurement, table = schema.measurement.c, schema.series.c
    ever = literal(0.0, Moment)
    rows = tx.execute(
        select(
            *(measurement.series_id, measurement.job_id),
            *(measurement.measured_at, measurement.seconds),
        )
        .join(schema.series, table.id == measurement.series_id)
        .where(
            table.id.in_(series),
            measurement.flag == "",
            # first the part that an index answers
            measurement.measured_at >= func.coalesce(table.screened_at, ever),
            or_(
                table.screened_at.is_(None),
                measurement.measured_at > table.screened_at,
                measurement.job_id > table.screened_job,
            ),
        )
        .order_by(measurement.series_id, measurement.measured_at, measurement.job_id)
    )
    found: dict[int, list[Point]] = {}
    for row in rows:
        point = Point(row.job_id, row.measured_at or 0.0, row.seconds)
        found.setdefault(row.series_id or 0, []).append(point)
    return found
