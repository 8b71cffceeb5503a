"""The screen of each series steps over its new results; what it suspects becomes change points.

Its state lies in the series' row, with the jobs of its last results, so that an alarm can name
them. A result older than the last one that was screened is left to the pass over the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, literal, or_, select, update

from vkbench_db import models
from vkbench_db.batches import batches
from vkbench_db.change_points import Method, Suspicion, suspect, undecided
from vkbench_db.moment import Moment
from vkbench_db.series import points_from
from vkbench_db.statistics import screen as stage

BATCH = 200  # series whose new results are read at once
KEPT_JOBS = 3 * stage.KEPT  # an alarm of the average looks so far back at most

AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True)
class Screen:
    """A state of the screen, and the jobs of the last results that it saw."""

    state: stage.State
    jobs: tuple[int, ...]

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Screen:
        """What a series' row holds."""
        if not stored:
            return cls(stage.State(), ())
        return cls(stage.State.from_plain(stored["state"]), tuple(stored["jobs"]))

    def to_plain(self) -> dict[str, Any]:
        """What a series' row is to hold."""
        return {"state": self.state.to_plain(), "jobs": list(self.jobs)}

    def stepped(self, job: int, seconds: float) -> tuple[Screen, stage.Alarm | None]:
        """After one more result."""
        state, alarm = stage.step(self.state, log(seconds))
        return Screen(state, (*self.jobs, job)[-KEPT_JOBS:]), alarm

    def neighbours(self, index: int) -> tuple[int, int]:
        """Jobs of the last good result before an index, and of that at it."""
        first = self.state.count - len(self.jobs)
        after = max(index, first + 1)
        good = [known for known in self.state.indices if first <= known < after]
        before = good[-1] if good else after - 1
        return self.jobs[before - first], self.jobs[after - first]


def screen(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Screen what is new in these series; says the new change points."""
    made: list[int] = []
    for batch in batches(sorted(set(series)), BATCH):
        made += _screen(tx, batch, now)
    return made


def behind(tx: Connection) -> list[int]:
    """Series with results that nobody screened: whoever placed them did not come to it."""
    measurement, table = models.Measurement, models.Series
    newer = select(measurement.job_id).where(
        measurement.series_id == table.id,
        measurement.flag == "",
        measurement.measured_at > func.coalesce(table.screened_at, literal(0.0, Moment)),
    )
    # whatever was placed is to be looked back at as well: an index has the few that are
    asked = select(table.id).where(table.scan_due_at.is_not(None), newer.exists())
    return list(tx.execute(asked).scalars())


def restart(tx: Connection, series: int, job: int) -> None:
    """Begin a segment with the result of a job, from what is stored: a change was confirmed."""
    found = points_from(tx, series, job, stage.KEPT)
    if not found:
        return
    state = stage.replayed(log(point.seconds) for point in found)
    last = found[-1]
    row = _row(series, Screen(state, tuple(point.job for point in found)))
    _store(tx, [row | {"at": last.measured_at, "job": last.job}])


def dismiss(tx: Connection, series: int) -> None:
    """Go on with the segment: a suspicion was wrong, or nothing came of it."""
    table = models.Series
    stored = tx.execute(select(table.screen).where(table.id == series)).scalar_one()
    before = Screen.of(stored)
    _store(tx, [_row(series, Screen(stage.dismissed(before.state), before.jobs))])


def _screen(tx: Connection, series: Sequence[int], now: float) -> list[int]:
    table = models.Series
    stored = {
        row.id: Screen.of(row.screen)
        for row in tx.execute(select(table.id, table.screen).where(table.id.in_(series)))
    }
    found: list[Suspicion] = []
    rows = []
    for number, results in groupby(_new(tx, series), key=lambda row: row.series_id):
        after, suspicions, last = _stepped(number, stored[number], results)
        found += suspicions
        rows.append(_row(number, after) | {"at": last.measured_at, "job": last.job_id})
    _store(tx, rows)
    return _suspect(tx, found, now)


def _stepped(
    series: int, screen: Screen, results: Iterable[AnyRow]
) -> tuple[Screen, list[Suspicion], AnyRow]:
    found = []
    for last in results:
        screen, alarm = screen.stepped(last.job_id, last.seconds)
        if alarm:
            found.append(_suspicion(series, screen, alarm))
    return screen, found, last


def _suspicion(series: int, screen: Screen, alarm: stage.Alarm) -> Suspicion:
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


def _suspect(tx: Connection, found: Sequence[Suspicion], now: float) -> list[int]:
    """Change points of the first alarm of each series and direction that nobody suspects yet."""
    known = undecided(tx, {each.series for each in found})
    first: dict[tuple[int, str], Suspicion] = {}
    for each in found:
        first.setdefault((each.series, str(each.direction)), each)
    return suspect(tx, [each for key, each in first.items() if key not in known], now)


def _new(tx: Connection, series: Sequence[int]) -> list[AnyRow]:
    """Results after the last one that was screened, by series, in their order."""
    measurement, table = models.Measurement, models.Series
    ever = literal(0.0, Moment)
    rows = tx.execute(
        select(
            *(measurement.series_id, measurement.job_id),
            *(measurement.measured_at, measurement.seconds),
        )
        .join(table, table.id == measurement.series_id)
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
    return list(rows)


def _row(series: int, screen: Screen) -> dict[str, Any]:
    return {"series": series, "new_screen": screen.to_plain()}


def _store(tx: Connection, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    table = models.Series.__table__
    values: dict[str, Any] = {"screen": bindparam("new_screen")}
    if "at" in rows[0]:
        values |= {"screened_at": bindparam("at"), "screened_job": bindparam("job")}
    tx.execute(
        update(table)  # type: ignore[arg-type]
        .where(table.c.id == bindparam("series"))
        .values(**values),
        list(rows),
    )
