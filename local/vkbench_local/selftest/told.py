"""Compares the regressions that a simulated lab opened with the changes planted in it.

Only the changes of regressions count: people hear of these, and not of ambiguous changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vkbench_db.database import Transaction
from vkbench_detection.changes.decisions import Cause
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.regress import inbox
from vkbench_detection.regress.inbox import MemberRow, RegressionRow
from vkbench_detection.regress.stages import UNSETTLED
from vkbench_detection.statistics.screen import Direction
from vkbench_local.selftest.nights import Lab
from vkbench_local.selftest.rigs import Rig, Stream
from vkbench_local.selftest.score import Answer, Outcome, Score, Size
from vkbench_local.selftest.truth import Edge, bringing, edges, is_slower

RANKS = tuple(Answer)
Place = tuple[str, str, str]  # device, case, metric


@dataclass(frozen=True, kw_only=True)
class Told:
    """A confirmed change of a series, as its regression tells people of it."""

    night: int  # with whose result it began
    night_heard: int  # the night in which people heard of it
    regression: RegressionRow
    member: MemberRow

    @property
    def cause(self) -> str:
        """What the regression is blamed on."""
        return self.regression.cause

    def covers(self, ratio: float) -> bool:
        """Whether the interval of its size holds a ratio."""
        return (self.member.low or 0.0) <= ratio <= (self.member.high or 0.0)


def score(tx: Transaction, lab: Lab) -> Score:
    """What the regressions of a lab say, held against what was planted."""
    changes = _ask_told_changes(tx, lab)
    ambiguous = inbox.suspected_changes(tx, states=(ChangeState.AMBIGUOUS,))
    unsure = {
        (row.device, row.case_name, row.metric, Direction(row.direction)) for row in ambiguous
    }
    total = Score(results=lab.results, pairs=lab.pairs)
    for rig in lab.rigs:
        for stream in rig.streams:
            for metric in stream.metrics:
                place = (rig.key, stream.case, metric)
                directions = {way for *where, way in unsure if tuple(where) == place}
                series = _Series(rig, stream, metric, len(lab.moments), directions)
                total = total.plus(series.score(changes.get(place, ())))
    return total


@dataclass(frozen=True)
class _Series:
    """A series of the lab, and the directions in which it has ambiguous changes."""

    rig: Rig
    stream: Stream
    metric: str
    nights: int
    unsure: Collection[Direction]

    def score(self, changes: Sequence[Told]) -> Score:
        """The score of the series: how the changes that were told match the planted ones."""
        planted = edges(self.stream, self.metric, self.nights)
        matched: dict[Edge, list[Told]] = {edge: [] for edge in planted}
        false: Counter[str] = Counter()
        for change in changes:
            edge = _nearest(planted, change)
            if edge:
                matched[edge].append(change)
            if not edge or change.cause not in edge.causes:
                false[change.cause] += 1
        outcomes = [self._outcome(edge, matched[edge]) for edge in planted if edge.is_wanted]
        sizes = [_size(edge, told_change) for edge in planted for told_change in matched[edge]]
        is_right = _is_open(changes) == is_slower(self.rig, self.stream, self.metric, self.nights)
        return Score(
            outcomes=outcomes,
            sizes=[size for size in sizes if size],
            false=false,
            states_right=bool(outcomes) and is_right,
            states=bool(outcomes),
            series=1,
        )

    def _outcome(self, edge: Edge, changes: Sequence[Told]) -> Outcome:
        if not changes:
            is_listed = edge.direction in self.unsure
            return Outcome(answer=Answer.AMBIGUOUS if is_listed else Answer.NOTHING)
        rank, night = min(
            (RANKS.index(self._answer(edge, change)), change.night_heard) for change in changes
        )
        return Outcome(answer=RANKS[rank], nights=night - edge.night)

    def _answer(self, edge: Edge, change: Told) -> Answer:
        if change.cause not in edge.causes:
            return Answer.BLAMED
        bundles, driver = bringing(self.rig, edge, self.nights)
        member = change.member
        is_new = (
            member.before_kernel != member.after_kernel
            and member.before_bundle != member.after_bundle
        )
        is_right = {
            Cause.HOST: True,
            Cause.ENVIRONMENT: member.after_driver_version == driver
            and member.before_driver_version != driver,
        }.get(Cause(change.cause), is_new and member.after_bundle in bundles)
        return Answer.RIGHT if is_right else Answer.MISPLACED


def _size(edge: Edge, change: Told) -> Size | None:
    """What was told of the size of a change; None where its cause is wrong, or no size is."""
    truth, estimate = edge.size(change.cause), change.member.ratio
    if change.cause not in edge.causes or truth is None or estimate is None:
        return None
    return Size(truth=truth, estimate=estimate, is_covered=change.covers(truth))


def _nearest(planted: Sequence[Edge], change: Told) -> Edge | None:
    """The planted change that a told one is, if any."""
    near = [
        edge
        for edge in planted
        if edge.direction == change.regression.direction
        and edge.is_near(change.night)
        and change.night_heard >= edge.night
    ]
    return min(near, key=lambda edge: abs(edge.night - change.night), default=None)


def _is_open(changes: Sequence[Told]) -> bool:
    return any(
        change.regression.state in UNSETTLED and change.regression.direction == Direction.SLOWER
        for change in changes
    )


def _ask_told_changes(tx: Transaction, lab: Lab) -> Mapping[Place, list[Told]]:
    """The confirmed changes that regressions and improvements have, by series."""
    by_place: dict[Place, list[Told]] = defaultdict(list)
    for row in inbox.regressions(tx):
        for member in inbox.story(tx, row.id).members:
            change = Told(
                night=lab.nights.get(member.after_job, -1),
                night_heard=_night(lab, max(member.found_at, row.opened_at)),
                regression=row,
                member=member,
            )
            by_place[member.device, member.case_name, member.metric].append(change)
    return by_place


def _night(lab: Lab, at: float) -> int:
    """The night that a moment belongs to."""
    return sum(moment <= at + 2 for moment in lab.moments) - 1
