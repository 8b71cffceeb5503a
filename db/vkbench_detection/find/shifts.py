"""What the shifts of a series' levels are: suspicions, decisions, or reasons to measure again.

A shift lies between two results: where kernel or environment moved, if that is near and describes
the results as well. If a change point of the same direction lies there or a few results away, the
shift is that one; else it is a new suspicion. On a device that a worker serves, the newest shift is
measured: so is a change that was placed badly, or dismissed, once more results keep its shift.
Elsewhere the results alone decide. Where they cannot tell a change from the series' own wander, it
becomes ambiguous, not dismissed: people see it. What a program's build brought stays suspected
there: its results may be of another protocol. So do, on any device, changes from or to results of a
build that a file of another program told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import (
    OF_CODE,
    Cause,
    Conclusion,
    Decision,
    Figures,
    Reopening,
    Suspicion,
    cause_of,
    moves,
)
from vkbench_detection.changes.states import NEAREST, UNDECIDED, ChangeState
from vkbench_detection.series.points import Origin, Point
from vkbench_detection.statistics import onsets, segments
from vkbench_detection.statistics.ratios import Ratio
from vkbench_detection.statistics.screen import Direction
from vkbench_detection.statistics.segments import SHORTEST, LevelShift, Rest

NEAR = 5  # results between a change point and a shift that are one
ENOUGH = 2 * SHORTEST  # results after a suspicion, of which nothing came
LEVEL = 30  # results on each side of it that are held against each other
BY_PAIRS = (*OF_CODE, Cause.UNKNOWN)  # causes that pairs show, and history alone cannot


@dataclass(frozen=True, kw_only=True)
class History:
    """The last results of a series, and what is known of them."""

    series: int
    device: int
    is_pairable: bool  # whether pairs can measure it again
    points: Sequence[Point]
    known: Sequence[ChangePoint]
    taken: Collection[int]  # first jobs of all changes of the series, of slow decay too
    measured: Collection[int]  # those of `known` that pairs were measured for
    decided: Mapping[int, float]  # when each was decided last
    origins: Mapping[int, Origin]  # of the points, by job

    @cached_property
    def seconds(self) -> list[float]:
        """Seconds of each result."""
        return [point.seconds for point in self.points]

    @cached_property
    def moved(self) -> list[int]:
        """Where the kernel or the environment is another than before."""
        return moves(self.origins, [point.job for point in self.points])

    def place(self, job: int) -> int | None:
        """Where a job's result stands; None when it is too old, or does not count."""
        return next((n for n, point in enumerate(self.points) if point.job == job), None)

    def results_since(self, row: ChangePoint) -> int:
        """How many results came since a change was decided last."""
        moment = self.decided.get(row.id, 0.0)
        return sum(point.measured_at > moment for point in self.points)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the shifts of one series are."""

    suspicions: Sequence[Suspicion]
    decisions: Sequence[Decision]
    reopenings: Sequence[Reopening]


@dataclass(frozen=True)
class _Place:
    """Between which jobs a shift lies, and what moved with it."""

    before: int
    after: int
    cause: Cause
    is_told: bool  # by a file, on one side or both

    @property
    def jobs(self) -> tuple[int, int]:
        return self.before, self.after


def judge_shifts(history: History, *, is_served: bool) -> Outcome:
    """What the shifts of a series are, on a device that a worker serves or not."""
    shifts = segments.find(history.seconds, history.moved)
    ends = [0, *(shift.index for shift in shifts), len(history.points)]
    suspicions: list[Suspicion] = []
    reopenings: list[Reopening] = []
    decisions: dict[int, Decision] = {}  # by change point; of two shifts that are one, the later
    claimed: set[int] = set()
    for shift, start, end in zip(shifts, ends, ends[2:], strict=False):
        # pairs can measure the newest shift alone: what is over cannot be measured again
        place = _place(history, shift.index, (start, end), is_served=is_served)
        # imported results of a program are of any protocol: pairs confirm
        is_for_pairs = place.is_told or (place.cause == Cause.BUILD and not is_served)
        decides = not is_for_pairs and (not is_served or shift is not shifts[-1])
        same = _same(history, shift, place)
        if same is None:
            suspicions.append(_suspicion(history, shift, place, decides=decides))
            continue
        claimed.add(same.id)
        if not decides and (again := _reopening(history, same, shift, place)):
            reopenings.append(again)
        elif not is_for_pairs and _may_decide(
            history, same, shift, place, is_served=is_served, decides=decides
        ):
            decisions[same.id] = _decision(history, same, shift, place)
    faded = [] if is_served else _decide_faded(history, claimed)
    return Outcome(
        suspicions=suspicions,
        decisions=[*decisions.values(), *faded],
        reopenings=reopenings,
    )


_WAITS = {Cause.BUILD: ": not confirmed until pairs of both builds are measured"}


def _suspicion(history: History, shift: LevelShift, place: _Place, *, decides: bool) -> Suspicion:
    return Suspicion(
        series=history.series,
        method=Method.HISTORY,
        direction=_toward(shift.ratio),
        before_job=place.before,
        after_job=place.after,
        ratio=shift.ratio.ratio,
        note=f"the level of {len(history.points)} results changes{_WAITS.get(place.cause, '')}",
        conclusion=_conclusion(shift, place.cause) if decides else None,
    )


def _reopening(
    history: History, row: ChangePoint, shift: LevelShift, place: _Place
) -> Reopening | None:
    """Why a change that is not confirmed is to be measured from the start, if it is."""
    if row.state == ChangeState.CONFIRMED:
        return None
    is_waiting = row.state in UNDECIDED
    is_elsewhere = _is_elsewhere(history, row, place)
    if not is_elsewhere and is_waiting:
        return None
    if not is_waiting and not (shift.is_certain or is_elsewhere):
        return None
    if not is_waiting and not _is_due_again(history, row):
        return None
    is_open = row.state == ChangeState.AMBIGUOUS and place.cause not in BY_PAIRS
    if is_open and not is_elsewhere:
        return None  # more of the same pairs would say the same: the results decide
    return Reopening(
        change=row.id,
        note=f"the level of {len(history.points)} results changes",
        ratio=shift.ratio.ratio,
        between=place.jobs if is_elsewhere else None,
    )


def _is_elsewhere(history: History, row: ChangePoint, place: _Place) -> bool:
    """Whether something moved at the place of a shift, and not where its change point is."""
    if place.cause == Cause.HOST or place.after in history.taken:
        return False
    before, after = history.origins[place.before], history.origins[place.after]
    there = (before.kernel, after.kernel, before.environment, after.environment)
    known = (row.before_kernel, row.after_kernel, row.before_environment, row.after_environment)
    return there != known


def _is_due_again(history: History, row: ChangePoint) -> bool:
    """Whether as many results came since a change was decided as spoke for it then.

    So each time it takes twice as many: a series is looked at every night, and most nights tell
    nothing new.
    """
    since, after = history.results_since(row), history.place(row.after_job)
    then = 0 if after is None else len(history.points) - after - since
    return since >= max(SHORTEST, then)


def _decision(history: History, row: ChangePoint, shift: LevelShift, place: _Place) -> Decision:
    is_moved = place.after not in history.taken
    return Decision(
        change=row.id,
        conclusion=_conclusion(shift, place.cause),
        between=place.jobs if is_moved else None,
    )


def _same(history: History, shift: LevelShift, place: _Place) -> ChangePoint | None:
    """The change point that a shift is: of its direction, at its place or a few results off."""
    direction = _toward(shift.ratio)
    near = [
        row
        for row in history.known
        if row.direction == direction
        and (row.after_job == place.after or _covers(history, row, shift))
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


def _covers(history: History, row: ChangePoint, shift: LevelShift) -> bool:
    """Whether a shift lies near a change point; late results may have come between its jobs."""
    before, after = history.place(row.before_job), history.place(row.after_job)
    if after is None:
        return False
    first = after if before is None else before + 1
    return first - NEAR <= shift.index <= after + NEAR


def _may_decide(
    history: History,
    row: ChangePoint,
    shift: LevelShift,
    place: _Place,
    *,
    is_served: bool,
    decides: bool,
) -> bool:
    """Whether results alone may decide a change point that is open or was decided on fewer."""
    if row.state == ChangeState.SUSPECTED:
        return decides
    if row.state not in (ChangeState.AMBIGUOUS, ChangeState.DISMISSED):
        return False
    if is_served or row.id in history.measured:
        is_for_pairs = row.id in history.measured and is_served and place.cause in BY_PAIRS
        return shift.is_certain and not is_for_pairs and _is_due_again(history, row)
    return shift.is_certain or row.state == ChangeState.DISMISSED


def _place(history: History, index: int, ends: tuple[int, int], *, is_served: bool) -> _Place:
    """The neighbours of a shift between two others, and what moved with it.

    Without pairs to ask, only a kernel or driver that moved right beside a shift explains it.
    """
    start, end = ends
    near = [place for place in history.moved if abs(place - index) <= segments.NEAR]
    at = min(near, key=lambda place: abs(place - index), default=index)
    if is_served and not near:
        logs = [log(seconds) for seconds in history.seconds[start:end]]
        moved = [place - start for place in history.moved]
        onset = onsets.find_onset(logs, index - start, moved)
        at = start + onset.index if onset.is_moved else index
    before, after = history.points[at - 1].job, history.points[at].job
    sides = history.origins[before], history.origins[after]
    is_told = any(side.is_told for side in sides)
    return _Place(before, after, cause_of(*sides), is_told=is_told)


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


def _decide_faded(history: History, claimed: set[int]) -> list[Decision]:
    """Decide suspicions that enough results came after, and that none of the shifts is."""
    decisions = []
    for row in history.known:
        after = history.place(row.after_job)
        if row.state != ChangeState.SUSPECTED or row.id in claimed or not after:
            continue
        if len(history.points) - after >= ENOUGH:
            decisions.append(Decision(change=row.id, conclusion=_remainder(history, row, after)))
    return decisions


def _remainder(history: History, row: ChangePoint, after: int) -> Conclusion:
    """Dismiss a suspicion, unless its shift is still there and more than the wander speaks for it.

    That is a kernel or driver that moved there, or the size of the shift: then it is ambiguous.
    """
    start, end = _segments_around(history, after)
    cause = _place(history, after, (start, end), is_served=False).cause
    rest = segments.rest(history.seconds[start:end], after - start, LEVEL)
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


def _segments_around(history: History, index: int) -> tuple[int, int]:
    """From the last confirmed change before a place to the next one after it."""
    places = [
        place
        for row in history.known
        if row.state == ChangeState.CONFIRMED and (place := history.place(row.after_job))
    ]
    start = max((place for place in places if place < index), default=0)
    return start, min((place for place in places if place > index), default=len(history.points))
