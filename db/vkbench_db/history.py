"""Whole series are cut where their level changed: what the screen missed, or was too early to know.

A change that is found lies between two results. If a change point of the same direction lies there
or a few results away, it is that one; else one is made. On a device that a worker serves it is then
measured again; elsewhere this pass decides, and says so. Where it cannot tell a change from the
series' own wander, the change becomes ambiguous, which people see; it is not dismissed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from vkbench_db import models
from vkbench_db.change_points import (
    WRONG,
    Cause,
    Finding,
    Method,
    Standing,
    Suspicion,
    cause_of,
    move,
    settle,
    suspect,
)
from vkbench_db.database import watch_alone
from vkbench_db.fleet import WATCHED_SECONDS, watched
from vkbench_db.screening import dismiss, restart
from vkbench_db.series import VERDICT, Origin, Point, origins, points
from vkbench_db.statistics import segments
from vkbench_db.statistics.ratios import Ratio
from vkbench_db.statistics.screen import Direction
from vkbench_db.statistics.segments import LAST, SHORTEST, Change, Rest

NEAR = 5  # results between a change point and a change that are one
BESIDE = segments.NEAR  # results between a change and the kernel or driver that explains it
ENOUGH = 2 * SHORTEST  # results after a suspicion, of which nothing came
LEVEL = 30  # results on each side of it that are held against each other

AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True)
class _History:
    """The last results of a series, and what is known of them."""

    series: int
    device: int
    points: Sequence[Point]
    known: Sequence[AnyRow]  # change points
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


@dataclass(frozen=True)
class _Place:
    """Between which jobs a change lies, and what moved with it."""

    before: int
    after: int
    cause: Cause


def due(tx: Connection, now: float, limit: int) -> list[int]:
    """Series whose turn it is: new results came in some time ago."""
    series = models.Series
    rows = tx.execute(
        select(series.id).where(series.scan_due_at <= now).order_by(series.scan_due_at).limit(limit)
    )
    return list(rows.scalars())


def changed(tx: Connection) -> list[int]:
    """Series with results that came in since their history was last looked at."""
    series = models.Series
    return list(tx.execute(select(series.id).where(series.scan_due_at.is_not(None))).scalars())


def every(tx: Connection) -> list[int]:
    """All series of times."""
    series = models.Series
    return list(tx.execute(select(series.id).where(series.metric != VERDICT)).scalars())


def scan(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Look for changes in whole series; says which change points are new, or decided now."""
    watch_alone(tx)
    wanted = sorted(set(series))
    served = watched(tx, now)
    touched: list[int] = []
    for history in _histories(tx, wanted):
        touched += _scan(tx, history, history.device in served, now)
    table = models.Series
    tx.execute(update(table).where(table.id.in_(wanted)).values(scan_due_at=None))
    # what waits for pairs is looked at once more when nobody serves the device any longer
    waiting = table.id.in_(_waiting(wanted)) & table.device_id.in_(served)
    tx.execute(update(table).where(waiting).values(scan_due_at=now + WATCHED_SECONDS))
    return touched


def _waiting(series: Sequence[int]) -> Select[int]:
    change = models.ChangePoint
    return select(change.series_id).where(
        change.series_id.in_(series), change.state == Standing.SUSPECTED
    )


def _histories(tx: Connection, series: Sequence[int]) -> Iterable[_History]:
    table, change = models.Series, models.ChangePoint
    for row in tx.execute(select(table.id, table.device_id).where(table.id.in_(series))).all():
        known = tx.execute(
            select(change.__table__)
            .where(change.series_id == row.id, change.direction != WRONG)
            .order_by(change.id)
        ).all()
        last = points(tx, row.id, LAST)
        made_with = origins(tx, [point.job for point in last])
        yield _History(row.id, row.device_id, last, known, made_with)


def _scan(tx: Connection, history: _History, is_served: bool, now: float) -> list[int]:
    changes = segments.find(history.seconds, history.moved)
    touched: list[int] = []
    claimed: set[int] = set()
    for change in changes:
        # What is over cannot be measured again.
        decides = not is_served or change is not changes[-1]
        place = _explained(history, change.index)
        same = _same(history, change, place)
        found = _take(tx, history, change, place, same, decides=decides, now=now)
        claimed |= {same.id} if same else set()
        touched += [found] if found else []
    dismissed = [] if is_served else _dismiss(tx, history, claimed, now)
    _go_on(tx, history, touched, dismissed)
    return touched + dismissed


def _take(
    tx: Connection,
    history: _History,
    change: Change,
    place: _Place,
    same: AnyRow | None,
    *,
    decides: bool,
    now: float,
) -> int | None:
    """Make or decide the change point of a change; None if nothing is new about it."""
    if same is None:
        made = _suspect(tx, history, change, place, now)
        if made and decides:
            settle(tx, made, _finding(change, place.cause), now)
        return made
    if not _may_decide(tx, same, change, decides=decides):
        return None
    if same.state == Standing.SUSPECTED and _is_free(history, place.after):
        move(tx, same.id, place.before, place.after, now)
    settle(tx, same.id, _finding(change, place.cause), now)
    return int(same.id)


def _go_on(
    tx: Connection, history: _History, touched: Sequence[int], dismissed: Sequence[int]
) -> None:
    """The screen goes on from the last confirmed change, if this pass moved anything."""
    change = models.ChangePoint
    rows = tx.execute(
        select(change.after_job).where(change.id.in_(touched), change.state == Standing.CONFIRMED)
    ).scalars()
    places = [place for place in map(history.place, rows) if place is not None]
    if places:
        restart(tx, history.series, history.points[max(places)].job)
    elif dismissed:
        dismiss(tx, history.series)


def _same(history: _History, change: Change, place: _Place) -> AnyRow | None:
    """The change point that a change is: of its direction, at its place or a few results off."""
    direction = _toward(change.ratio)
    near = [
        row for row in history.known if row.direction == direction and _covers(history, row, change)
    ]
    order = (Standing.CONFIRMED, Standing.CONFIRMING, Standing.SUSPECTED, Standing.AMBIGUOUS)
    ranks = {state: rank for rank, state in enumerate(order)}
    return min(
        near,
        key=lambda row: (ranks.get(row.state, len(order)), row.after_job != place.after, row.id),
        default=None,
    )


def _covers(history: _History, row: AnyRow, change: Change) -> bool:
    """Whether a change lies between a change point's neighbours, which late results part."""
    before, after = history.place(row.before_job), history.place(row.after_job)
    if after is None:
        return False
    first = after if before is None else before + 1
    return first - NEAR <= change.index <= after + NEAR


def _is_free(history: _History, job: int) -> bool:
    return all(row.after_job != job for row in history.known)


def _may_decide(tx: Connection, row: AnyRow, change: Change, *, decides: bool) -> bool:
    """Whether this pass may decide what is open, or what less was known of."""
    if row.state == Standing.SUSPECTED:
        return decides
    if row.state not in (Standing.AMBIGUOUS, Standing.DISMISSED):
        return False
    if _was_measured(tx, row.id):
        return row.state == Standing.AMBIGUOUS and change.is_certain and _knows_more(row, change)
    return change.is_certain or row.state == Standing.DISMISSED


def _knows_more(row: AnyRow, change: Change) -> bool:
    return row.p is None or change.ratio.p < row.p


def _was_measured(tx: Connection, change: int) -> bool:
    table = models.Confirmation
    asked = select(table.id).where(table.change_point_id == change).limit(1)
    return tx.execute(asked).first() is not None


def _explained(history: _History, index: int) -> _Place:
    """The neighbours of a change and its cause, by the nearest move of kernel or environment.

    Noise may put a change a result or two from where it was: a kernel that moved there says better.
    """
    near = [place for place in history.moved if abs(place - index) <= BESIDE]
    at = min(near, key=lambda place: abs(place - index), default=index)
    return _Place(history.points[at - 1].job, history.points[at].job, history.causes[at])


def _toward(ratio: Ratio) -> Direction:
    return Direction.SLOWER if ratio.ratio > 1 else Direction.FASTER


def _suspect(
    tx: Connection, history: _History, change: Change, place: _Place, now: float
) -> int | None:
    found = Suspicion(
        series=history.series,
        method=Method.HISTORY,
        direction=_toward(change.ratio),
        before_job=place.before,
        after_job=place.after,
        ratio=change.ratio.ratio,
        note=f"the level of {len(history.points)} results changes",
    )
    return next(iter(suspect(tx, [found], now)), None)


def _finding(change: Change, cause: Cause) -> Finding:
    note = "by history, not measured again"
    if not change.is_certain:
        note = f"{note}: the series wanders so much that its results alone cannot tell"
    return Finding(
        state=Standing.CONFIRMED if change.is_certain else Standing.AMBIGUOUS,
        note=note,
        cause=cause,
        figures=_figures(change.ratio),
    )


def _figures(ratio: Ratio) -> dict[str, float | None]:
    return {"ratio": ratio.ratio, "low": ratio.low, "high": ratio.high, "p": ratio.p}


def _dismiss(tx: Connection, history: _History, claimed: set[int], now: float) -> list[int]:
    """Dismiss suspicions that enough results came after, and that none of the changes is.

    Those whose shift is still there become ambiguous, if more than the series' wander speaks for
    them: a kernel or driver that moved there, or their size.
    """
    settled = []
    for row in history.known:
        after = history.place(row.after_job)
        if row.state != Standing.SUSPECTED or row.id in claimed or not after:
            continue
        if len(history.points) - after >= ENOUGH:
            settle(tx, row.id, _faded(history, row, after), now)
            settled.append(row.id)
    return settled


def _faded(history: _History, row: AnyRow, after: int) -> Finding:
    cause = _explained(history, after).cause
    rest = segments.rest(history.seconds, after, LEVEL)
    figures = _figures(rest.levels)
    if _is_left(rest, row.direction, cause):
        text = "by history: the shift stays, and the series wanders by as much"
        return Finding(state=Standing.AMBIGUOUS, note=text, cause=cause, figures=figures)
    text = f"by history: {len(history.points) - after} results since then show no new level"
    return Finding(state=Standing.DISMISSED, note=text, figures=figures)


def _is_left(rest: Rest, direction: str, cause: Cause) -> bool:
    """Whether there is a shift still, with more to speak for it than the wander has."""
    is_there = rest.is_shifted and _toward(rest.levels) == direction
    return is_there and (cause != Cause.HOST or rest.exceeds_wander)
