"""Whole series are cut where their level shifted: what the screen missed, or was too early to know.

A shift lies between two results. If a change point of the same direction lies there or a few
results away, the shift is that one; else it is a new suspicion. On a device that a worker serves,
the newest shift is then measured again, unless it is of shards, which pairs do not measure.
Elsewhere this pass decides from the results alone. Where it cannot tell a change from the series'
own wander, the change becomes ambiguous, not dismissed: people see it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import Connection, select, update

from vkbench.job import PEERS, SHARDS
from vkbench.peers import BY_NAME
from vkbench.result import OURS
from vkbench_db import schema
from vkbench_db.database import watch_alone
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.decisions import (
    VERDICTS,
    Cause,
    Conclusion,
    Decision,
    Figures,
    Method,
    Suspicion,
    cause_of,
)
from vkbench_detection.changes.states import NEAREST, ChangeState
from vkbench_detection.changes.transitions import apply, suspect
from vkbench_detection.confirm.fleet import WATCHED_SECONDS, watched
from vkbench_detection.series.points import VERDICT, Origin, Point, origins, points
from vkbench_detection.statistics import segments
from vkbench_detection.statistics.ratios import Ratio
from vkbench_detection.statistics.screen import Direction
from vkbench_detection.statistics.segments import LAST, SHORTEST, LevelShift, Rest

NEAR = 5  # results between a change point and a shift that are one
BESIDE = segments.NEAR  # results between a shift and the kernel or driver that explains it
ENOUGH = 2 * SHORTEST  # results after a suspicion, of which nothing came
LEVEL = 30  # results on each side of it that are held against each other


@dataclass(frozen=True)
class _History:
    """The last results of a series, and what is known of them."""

    series: int
    device: int
    track: str
    points: Sequence[Point]
    known: Sequence[ChangePoint]
    measured: Collection[int]  # those of them that pairs were measured for
    origins: Mapping[int, Origin]  # of the points, by job

    @property
    def seconds(self) -> list[float]:
        return [point.seconds for point in self.points]

    @cached_property
    def causes(self) -> Sequence[Cause]:
        """What moved with each point since the one before; HOST where nothing did."""
        moments = [self.origins[point.job] for point in self.points]
        return [Cause.HOST, *map(cause_of, moments, moments[1:])]

    @property
    def moved(self) -> list[int]:
        """Where the kernel or the environment is another than before."""
        return [place for place, cause in enumerate(self.causes) if cause != Cause.HOST]

    def place(self, job: int) -> int | None:
        """Where a job's result stands; None when it is too old, or does not count."""
        return next((n for n, point in enumerate(self.points) if point.job == job), None)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What the pass found in one series."""

    suspicions: Sequence[Suspicion]
    decisions: Sequence[Decision]


@dataclass(frozen=True)
class _Place:
    """Between which jobs a shift lies, and what moved with it."""

    before: int
    after: int
    cause: Cause


def due(tx: Connection, now: float, limit: int) -> list[int]:
    """Series whose history is to be looked at now."""
    series = schema.series.c
    rows = tx.execute(
        select(series.id).where(series.scan_due_at <= now).order_by(series.scan_due_at).limit(limit)
    )
    return list(rows.scalars())


def changed(tx: Connection) -> list[int]:
    """Series with results that came in since their history was last looked at."""
    series = schema.series.c
    return list(tx.execute(select(series.id).where(series.scan_due_at.is_not(None))).scalars())


def every(tx: Connection) -> list[int]:
    """All series of our kernels' times: those of peers are never suspected."""
    series = schema.series.c
    ours = (
        series.metric.not_in((VERDICT, OURS)),
        series.variant.not_in(tuple(BY_NAME)),
        series.track != PEERS,
    )
    return list(tx.execute(select(series.id).where(*ours)).scalars())


def scan(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Look for changes in whole series; return the change points that are new or decided now."""
    watch_alone(tx)
    wanted = sorted(set(series))
    served = watched(tx, now)
    touched: list[int] = []
    for history in _histories(tx, wanted):
        is_measured = history.device in served and history.track != SHARDS
        found = _judged(history, is_served=is_measured)
        apply(tx, found.decisions, now)  # first: a decision may move its change point to a place
        touched += [each.change for each in found.decisions]
        touched += suspect(tx, found.suspicions, now)
    _put_off(tx, wanted, served, now)
    return touched


def _put_off(tx: Connection, series: Sequence[int], served: Collection[int], now: float) -> None:
    """Set when the histories of these series are due again.

    New results make a series due. One whose suspected change waits for pairs on a served device is
    due after WATCHED_SECONDS as well, in case its device goes away.
    """
    table, change = schema.series.c, schema.change_point.c
    tx.execute(update(schema.series).where(table.id.in_(series)).values(scan_due_at=None))
    suspected = select(change.series_id).where(
        change.series_id.in_(series), change.state == ChangeState.SUSPECTED
    )
    waiting = table.id.in_(suspected) & table.device_id.in_(served) & (table.track != SHARDS)
    tx.execute(update(schema.series).where(waiting).values(scan_due_at=now + WATCHED_SECONDS))


def _histories(tx: Connection, series: Sequence[int]) -> Iterable[_History]:
    table, change = schema.series.c, schema.change_point.c
    asked = select(table.id, table.device_id, table.track).where(table.id.in_(series))
    for row in tx.execute(asked).all():
        found = (
            select(schema.change_point)
            .where(
                *(change.series_id == row.id, change.direction.not_in(VERDICTS)),
                change.method != Method.DECAY,  # no shift between neighbours
            )
            .order_by(change.id)
        )
        known = fetch(tx, found, ChangePoint)
        last = points(tx, row.id, LAST)
        made_with = origins(tx, [point.job for point in last])
        measured = _measured(tx, [each.id for each in known])
        yield _History(row.id, row.device_id, row.track, last, known, measured, made_with)


def _measured(tx: Connection, changes: Sequence[int]) -> set[int]:
    if not changes:
        return set()
    done = schema.confirmation.c
    asked = select(done.change_point_id).where(done.change_point_id.in_(changes))
    return set(tx.execute(asked).scalars())


def _judged(history: _History, *, is_served: bool) -> _Outcome:
    shifts = segments.find(history.seconds, history.moved)
    suspicions: list[Suspicion] = []
    decisions: dict[int, Decision] = {}  # by change point; of two shifts that are one, the later
    claimed: set[int] = set()
    for shift in shifts:
        # pairs can measure the newest shift alone: what is over cannot be measured again
        decides = not is_served or shift is not shifts[-1]
        place = _explained(history, shift.index)
        same = _same(history, shift, place)
        if same is None:
            suspicions.append(_suspicion(history, shift, place, decides=decides))
            continue
        claimed.add(same.id)
        if _may_decide(history, same, shift, decides=decides):
            decisions[same.id] = _decision(history, same, shift, place)
    faded = [] if is_served else _faded(history, claimed)
    return _Outcome(suspicions=suspicions, decisions=[*decisions.values(), *faded])


def _suspicion(history: _History, shift: LevelShift, place: _Place, *, decides: bool) -> Suspicion:
    return Suspicion(
        series=history.series,
        method=Method.HISTORY,
        direction=_toward(shift.ratio),
        before_job=place.before,
        after_job=place.after,
        ratio=shift.ratio.ratio,
        note=f"the level of {len(history.points)} results changes",
        conclusion=_conclusion(shift, place.cause) if decides else None,
    )


def _decision(history: _History, row: ChangePoint, shift: LevelShift, place: _Place) -> Decision:
    is_moved = row.state == ChangeState.SUSPECTED and _is_free(history, place.after)
    return Decision(
        change=row.id,
        conclusion=_conclusion(shift, place.cause),
        between=(place.before, place.after) if is_moved else None,
    )


def _same(history: _History, shift: LevelShift, place: _Place) -> ChangePoint | None:
    """The change point that a shift is: of its direction, at its place or a few results off."""
    direction = _toward(shift.ratio)
    near = [
        row for row in history.known if row.direction == direction and _covers(history, row, shift)
    ]
    return min(
        near,
        key=lambda row: (
            NEAREST.index(ChangeState(row.state)),
            row.after_job != place.after,
            row.id,
        ),
        default=None,
    )


def _covers(history: _History, row: ChangePoint, shift: LevelShift) -> bool:
    """Whether a shift lies near a change point; late results may have come between its jobs."""
    before, after = history.place(row.before_job), history.place(row.after_job)
    if after is None:
        return False
    first = after if before is None else before + 1
    return first - NEAR <= shift.index <= after + NEAR


def _is_free(history: _History, job: int) -> bool:
    return all(row.after_job != job for row in history.known)


def _may_decide(history: _History, row: ChangePoint, shift: LevelShift, *, decides: bool) -> bool:
    """Whether this pass may decide a change point that is open, or of which less was known."""
    if row.state == ChangeState.SUSPECTED:
        return decides
    if row.state not in (ChangeState.AMBIGUOUS, ChangeState.DISMISSED):
        return False
    if row.id in history.measured:
        is_open = row.state == ChangeState.AMBIGUOUS
        return is_open and shift.is_certain and _knows_more(row, shift)
    return shift.is_certain or row.state == ChangeState.DISMISSED


def _knows_more(row: ChangePoint, shift: LevelShift) -> bool:
    return row.p is None or shift.ratio.p < row.p


def _explained(history: _History, index: int) -> _Place:
    """The neighbours of a shift and its cause, by the nearest move of kernel or environment.

    Noise may put a shift a result or two from where it was: a kernel that moved there says better.
    """
    near = [place for place in history.moved if abs(place - index) <= BESIDE]
    at = min(near, key=lambda place: abs(place - index), default=index)
    return _Place(history.points[at - 1].job, history.points[at].job, history.causes[at])


def _toward(ratio: Ratio) -> Direction:
    return Direction.SLOWER if ratio.ratio > 1 else Direction.FASTER


def _conclusion(shift: LevelShift, cause: Cause) -> Conclusion:
    note = "by history, not measured again"
    if not shift.is_certain:
        note = f"{note}: the series wanders so much that its results alone cannot tell"
    return Conclusion(
        state=ChangeState.CONFIRMED if shift.is_certain else ChangeState.AMBIGUOUS,
        note=note,
        cause=cause,
        figures=_figures(shift.ratio),
    )


def _figures(ratio: Ratio) -> Figures:
    return {"ratio": ratio.ratio, "low": ratio.low, "high": ratio.high, "p": ratio.p}


def _faded(history: _History, claimed: set[int]) -> list[Decision]:
    """Decide suspicions that enough results came after, and that none of the shifts is."""
    found = []
    for row in history.known:
        after = history.place(row.after_job)
        if row.state != ChangeState.SUSPECTED or row.id in claimed or not after:
            continue
        if len(history.points) - after >= ENOUGH:
            found.append(Decision(change=row.id, conclusion=_remainder(history, row, after)))
    return found


def _remainder(history: _History, row: ChangePoint, after: int) -> Conclusion:
    """Dismiss a suspicion, unless its shift is still there and more than the wander speaks for it.

    That is a kernel or driver that moved there, or the size of the shift: then it is ambiguous.
    """
    cause = _explained(history, after).cause
    rest = segments.rest(history.seconds, after, LEVEL)
    figures = _figures(rest.levels)
    if _is_left(rest, row.direction, cause):
        text = "by history: the shift stays, and the series wanders by as much"
        return Conclusion(state=ChangeState.AMBIGUOUS, note=text, cause=cause, figures=figures)
    text = f"by history: {len(history.points) - after} results since then show no new level"
    return Conclusion(state=ChangeState.DISMISSED, note=text, figures=figures)


def _is_left(rest: Rest, direction: str, cause: Cause) -> bool:
    """Whether there is a shift still, with more to speak for it than the wander has."""
    is_there = rest.is_shifted and _toward(rest.levels) == direction
    return is_there and (cause != Cause.HOST or rest.exceeds_wander)
