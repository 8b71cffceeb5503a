"""The screen's memory of each series, as it is stored: loaded, stored, restarted, resumed.

It lies in the series' row, with the jobs of the last results that the screen saw, so that an alarm
can name them. `find/screening.py` steps it over new results. `changes/transitions.py` alone
restarts or resumes it, when a change of the series is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from vkbench_db import schema
from vkbench_detection.series.points import Point, points_from
from vkbench_detection.statistics import screen as statistics
from vkbench_detection.statistics.screen import Alarm, ScreenState

KEPT_JOBS = 3 * statistics.KEPT  # an alarm of the average looks so far back at most


@dataclass(frozen=True, kw_only=True)
class Screen:
    """A state of the screen, and the last results that it saw."""

    state: ScreenState = field(default_factory=ScreenState)
    jobs: tuple[int, ...] = ()
    at: float | None = None  # measured_at of the last one

    def add_point(self, point: Point) -> tuple[Screen, Alarm | None]:
        """The screen after one more result, and the alarm that this one raises."""
        state, alarm = statistics.step(self.state, log(point.seconds))
        jobs = (*self.jobs, point.job)[-KEPT_JOBS:]
        return Screen(state=state, jobs=jobs, at=point.measured_at), alarm

    def neighbours(self, index: int) -> tuple[int, int]:
        """The jobs of the last good result before an index, and of the result at it."""
        first = self.state.count - len(self.jobs)
        after = max(index, first + 1)
        good = [known for known in self.state.indices if first <= known < after]
        before = good[-1] if good else after - 1
        return self.jobs[before - first], self.jobs[after - first]

    @property
    def recent(self) -> list[tuple[int, int, float]]:
        """The last results of the segment, refused ones too: index, job, and value."""
        first = self.state.count - len(self.jobs)
        known = dict(self.state.refused) | dict(
            zip(self.state.indices, self.state.values, strict=True)
        )
        start = max(first, self.state.start)
        return [(n, self.jobs[n - first], known[n]) for n in sorted(known) if n >= start]


def load(tx: Connection, series: Collection[int]) -> dict[int, Screen]:
    """The stored screens by series; an empty one where nothing was screened yet."""
    table = schema.series.c
    rows = tx.execute(select(table.id, table.screen, table.screened_at).where(table.id.in_(series)))
    return {row.id: _screen(row.screen, row.screened_at) for row in rows}


def store(tx: Connection, screens: Mapping[int, Screen]) -> None:
    """Store screens by series."""
    if not screens:
        return
    table = schema.series
    tx.execute(
        update(table)
        .where(table.c.id == bindparam("series"))
        .values(
            screen=bindparam("new_screen"),
            screened_at=bindparam("at"),
            screened_job=bindparam("job"),
        ),
        [_row(series, screen) for series, screen in screens.items()],
    )


def restart(tx: Connection, series: int, job: int) -> None:
    """Begin a segment with the result of a job: from there on the series has a new level."""
    points = points_from(tx, series, job, statistics.KEPT)
    if points:
        state = statistics.replay_values(log(point.seconds) for point in points)
        jobs = tuple(point.job for point in points)
        store(tx, {series: Screen(state=state, jobs=jobs, at=points[-1].measured_at)})


def resume(tx: Connection, series: int) -> None:
    """Go on with the segment: no new level was confirmed."""
    screen = load(tx, [series])[series]
    if screen.jobs:
        store(tx, {series: replace(screen, state=statistics.after_dismissal(screen.state))})


def _screen(stored: Mapping[str, Any] | None, at: float | None) -> Screen:
    if not stored:
        return Screen()
    return Screen(state=ScreenState.from_plain(stored["state"]), jobs=tuple(stored["jobs"]), at=at)


def _row(series: int, screen: Screen) -> dict[str, Any]:
    return {
        "series": series,
        "new_screen": {"state": screen.state.to_plain(), "jobs": list(screen.jobs)},
        "at": screen.at,
        "job": screen.jobs[-1] if screen.jobs else None,
    }
