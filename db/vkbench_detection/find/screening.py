"""The screen of each series steps over its new results; its alarms become suspicions.

A suspicion lies where a kernel or the environment moved, if that is near. An alarm at a place that
was looked into before, and not confirmed, opens that change again. A result that is older than the
last one that was screened is left to the pass over the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, literal, or_, select

from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.schema.metadata import Moment
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.decisions import Reopening, Suspicion, moves
from vkbench_detection.changes.questions import LookedInto, looked_into, undecided_directions
from vkbench_detection.changes.transitions import pass_over, reopen, suspect
from vkbench_detection.confirm.levels import LASTING
from vkbench_detection.series import screens
from vkbench_detection.series.points import Point, origins, results_since
from vkbench_detection.series.screens import Screen
from vkbench_detection.statistics.onsets import NEAR, Onset, find_onset
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
    query = select(table.id).where(table.scan_due_at.is_not(None), newer.exists())
    return list(tx.execute(query).scalars())


@dataclass(frozen=True)
class _Raised:
    """An alarm, and the screen that raised it."""

    series: int
    screen: Screen
    alarm: Alarm


def _screen(tx: Connection, series: Sequence[int], now: float) -> list[int]:
    stored = screens.load(tx, series)
    after: dict[int, Screen] = {}
    alarms: list[_Raised] = []
    for number, results in _read_new_points(tx, series).items():
        after[number], raised = _step_screen(number, stored[number], results)
        alarms += raised
    screens.store(tx, after)
    known = undecided_directions(tx, {alarm.series for alarm in alarms})
    return _suspect(tx, _first(alarms, known), now)


def _step_screen(
    series: int, screen: Screen, results: Iterable[Point]
) -> tuple[Screen, list[_Raised]]:
    raised = []
    for point in results:
        screen, alarm = screen.add_point(point)
        if alarm:
            raised.append(_Raised(series, screen, alarm))
    return screen, raised


def _suspect(tx: Connection, alarms: Sequence[_Raised], now: float) -> list[int]:
    """Store alarms as suspicions; where one was looked into before, that may be suspected again."""
    before = looked_into(tx, {alarm.series for alarm in alarms})
    suspicions, again, passed = [], [], []
    for alarm in alarms:
        suspicion, onset = _suspicion(tx, alarm)
        known = _same(before, alarm, suspicion, onset)
        if known is None:
            suspicions.append(suspicion)
        elif _is_due_again(tx, alarm, known):
            note = f"again, {suspicion.note}"
            again.append(Reopening(change=known.id, note=note, ratio=suspicion.ratio))
        else:
            passed.append(alarm.series)
    reopen(tx, again, now)
    pass_over(tx, passed)
    return sorted([*(change.change for change in again), *suspect(tx, suspicions, now)])


def _suspicion(tx: Connection, raised: _Raised) -> tuple[Suspicion, Onset]:
    """An alarm at the place where the change began, as far as that can be told."""
    alarm, recent = raised.alarm, raised.screen.recent
    jobs = [job for _, job, _ in recent]
    at = next((place for place, (index, *_) in enumerate(recent) if index >= alarm.since), 0)
    onset = find_onset([value for *_, value in recent], at, _find_moved_places(tx, jobs, at))
    if onset.is_moved:
        before, after = jobs[onset.index - 1], jobs[onset.index]
    else:
        before, after = raised.screen.neighbours(recent[onset.index][0] if at else alarm.since)
    suspicion = Suspicion(
        series=raised.series,
        method=Method.SCREEN,
        direction=alarm.direction,
        before_job=before,
        after_job=after,
        ratio=alarm.ratio,
        note=f"{alarm.rule}: {alarm.ratio:.4f} of the level, the last {alarm.sigmas:+.1f} sigma",
    )
    return suspicion, onset


def _find_moved_places(tx: Connection, jobs: Sequence[int], at: int) -> list[int]:
    """The places near one of these jobs at which kernel or environment moved."""
    first = max(0, at - NEAR - 1)
    near = jobs[first : at + NEAR + 1]
    return [first + place for place in moves(origins(tx, near), near)]


def _same(
    before: Iterable[LookedInto], raised: _Raised, suspicion: Suspicion, onset: Onset
) -> LookedInto | None:
    """What was looked into at the place of a suspicion; or near it, where nothing moved."""
    mine = [
        change
        for change in before
        if (change.series_id, change.direction) == (raised.series, str(raised.alarm.direction))
    ]
    there = [change for change in mine if change.after_job == suspicion.after_job]
    if not there and not onset.is_moved:
        near = set(_jobs_around(raised.screen, suspicion.after_job))
        there = [change for change in mine if not change.is_explained and change.after_job in near]
    return there[0] if there else None


def _jobs_around(screen: Screen, job: int) -> Sequence[int]:
    at = screen.jobs.index(job)
    return screen.jobs[max(0, at - NEAR) : at + NEAR + 1]


def _is_due_again(tx: Connection, raised: _Raised, known: LookedInto) -> bool:
    """Whether as many results came since a change was decided as spoke for it then.

    What no kernel explains has to last, so that a single one tells nothing.
    """
    since = results_since(tx, raised.series, known.decided_at)
    jobs = raised.screen.jobs
    after = len(jobs) - jobs.index(known.after_job) if known.after_job in jobs else len(jobs)
    return since >= max(LASTING - 1, after - since)


def _first(alarms: Iterable[_Raised], known: set[tuple[int, str]]) -> list[_Raised]:
    """The first alarm of each series and direction that has no undecided suspicion yet."""
    first: dict[tuple[int, str], _Raised] = {}
    for alarm in alarms:
        first.setdefault((alarm.series, str(alarm.alarm.direction)), alarm)
    return [alarm for key, alarm in first.items() if key not in known]


def _read_new_points(tx: Connection, series: Sequence[int]) -> Mapping[int, list[Point]]:
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
    by_series: dict[int, list[Point]] = {}
    for row in rows:
        point = Point(row.job_id, row.measured_at or 0.0, row.seconds)
        by_series.setdefault(row.series_id or 0, []).append(point)
    return by_series
