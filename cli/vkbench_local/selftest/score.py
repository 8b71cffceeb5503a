"""What people are told of a simulated lab, held against what happened in it.

A regression's members are what counts: a change that is listed as ambiguous tells nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod

from vkbench_db.database import Transaction
from vkbench_detection.changes.decisions import Cause
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.regress import inbox
from vkbench_detection.regress.stages import UNSETTLED
from vkbench_detection.statistics.screen import Direction
from vkbench_local.selftest.nights import Lab
from vkbench_local.selftest.rigs import FOREVER, Rig, Stream

EARLY = 8  # nights by which a change may be placed before it happened, and is still told of it
LATE = 25  # nights after it within which it has to be told
OPEN = 1.01  # a case that is slower than this by what was planted has an open regression


class Answer(StrEnum):
    """What became of a planted change, the best first."""

    RIGHT = "right"  # its cause, and the bundle or driver that brought it
    MISPLACED = "misplaced"  # its cause, with another bundle or driver, or with none
    BLAMED = "blamed"  # another cause
    AMBIGUOUS = "ambiguous"  # listed as uncertain
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A planted change of a series, at one moment."""

    night: int
    last: int  # of a slow change, the night of its last step; else the same
    direction: str
    causes: frozenset[Cause]
    is_wanted: bool

    def is_near(self, night: int) -> bool:
        """Whether a change that is placed at a night may be this one."""
        return self.night - EARLY <= night <= self.last + LATE


@dataclass(frozen=True, kw_only=True)
class Told:
    """A confirmed change of a series, as people are told of it."""

    night: int  # with whose result it began
    told: int  # the night in which it was told
    direction: str
    cause: str
    moved: tuple[bool, str, str]  # whether kernels differ, new bundle, new driver
    ratio: float
    bounds: tuple[float, float]
    regression: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one planted change."""

    answer: Answer
    nights: int | None = None  # until it was told
    truth: float = 1.0  # ratio of the levels
    ratio: float | None = None  # that was told
    is_covered: bool | None = None  # whether the told interval holds the truth


@dataclass(frozen=True, kw_only=True)
class Score:
    """All that a lab shows."""

    outcomes: Sequence[Outcome] = ()  # of changes that people have to hear of
    false: Mapping[str, int] = field(default_factory=dict)  # changes that were none, by cause
    states: tuple[int, int] = (0, 0)  # cases whose regressions are in the right state, of how many
    results: int = 0
    pairs: int = 0
    series: int = 0

    def plus(self, other: Score) -> Score:
        """Both together."""
        return Score(
            outcomes=(*self.outcomes, *other.outcomes),
            false=Counter(self.false) + Counter(other.false),
            states=(self.states[0] + other.states[0], self.states[1] + other.states[1]),
            results=self.results + other.results,
            pairs=self.pairs + other.pairs,
            series=self.series + other.series,
        )


Place = tuple[str, str, str]  # device, case, metric


def score(tx: Transaction, lab: Lab) -> Score:
    """What the regressions of a lab say, and what they should."""
    told, states = _told(tx, lab), _states(tx)
    ambiguous = inbox.suspected(tx, states=(ChangeState.AMBIGUOUS,))
    unsure = {((row.device, row.case_name, row.metric), row.direction) for row in ambiguous}
    outcomes: list[Outcome] = []
    false: Counter[str] = Counter()
    right = total = series = 0
    for rig in lab.rigs:
        for stream in rig.streams:
            for metric in stream.metrics:
                place = (rig.key, stream.case, metric)
                series += 1
                found = _outcomes(rig, stream, metric, told.get(place, []), lab, unsure, place)
                outcomes += found[0]
                false += Counter(found[1])
                if found[0]:
                    total += 1
                    right += _is_open(told.get(place, []), states) == _is_slower(
                        rig, stream, metric, len(lab.moments)
                    )
    return Score(
        outcomes=outcomes,
        false=false,
        states=(right, total),
        results=lab.results,
        pairs=lab.pairs,
        series=series,
    )


def edges(stream: Stream, metric: str, nights: int) -> list[Edge]:
    """The planted changes of a series; steps of one night are one, so are those of a slow one."""
    steps = [step for step in stream.steps if metric in step.metrics]
    moments = sorted({at for step in steps for at in (step.night, step.until) if at < nights})
    if stream.is_gradual and moments:
        groups = [(moments[0], moments[-1])]
    else:
        groups = [(moment, moment) for moment in moments]
    return [_edge(steps, metric, first, last) for first, last in groups]


def _edge(steps: Sequence, metric: str, first: int, last: int) -> Edge:
    moved = [s for s in steps if first <= s.night <= last or first <= s.until <= last]
    ratio = _ratio(moved, metric, first, last)
    return Edge(
        night=first,
        last=last,
        direction=Direction.SLOWER if ratio > 1 else Direction.FASTER,
        causes=frozenset(step.cause for step in moved)
        | ({Cause.UNKNOWN} if len({step.cause for step in moved}) > 1 else set()),
        is_wanted=any(step.is_wanted for step in moved),
    )


def _ratio(steps: Iterable, metric: str, first: int, last: int) -> float:
    """New level over old, of what happens between two nights."""
    after = prod(step.factor for step in steps if step.holds(last, metric))
    before = prod(step.factor for step in steps if step.holds(first - 1, metric))
    return after / before


def _outcomes(
    rig: Rig,
    stream: Stream,
    metric: str,
    told: Sequence[Told],
    lab: Lab,
    unsure: set[tuple[Place, str]],
    place: Place,
) -> tuple[list[Outcome], list[str]]:
    """What became of each planted change of a series, and the causes of changes that were none."""
    nights = len(lab.moments)
    planted = edges(stream, metric, nights)
    matched: dict[int, list[Told]] = {number: [] for number in range(len(planted))}
    false = []
    for change in told:
        near = [
            number
            for number, edge in enumerate(planted)
            if edge.direction == change.direction
            and edge.is_near(change.night)
            and change.told >= edge.night
        ]
        nearest = min(near, key=lambda n: abs(planted[n].night - change.night), default=None)
        if nearest is None:
            false.append(change.cause)
            continue
        matched[nearest].append(change)
        if change.cause not in planted[nearest].causes:
            false.append(change.cause)
    outcomes = []
    for number, edge in enumerate(planted):
        if not edge.is_wanted:
            continue
        steps = [step for step in stream.steps if metric in step.metrics]
        truth = _ratio(steps, metric, edge.night, edge.last)
        answers = [(_answer(rig, edge, change, nights), change) for change in matched[number]]
        order = list(Answer)
        answer, best = min(
            answers, key=lambda pair: (order.index(pair[0]), pair[1].told), default=(None, None)
        )
        if best is None or answer is None:
            listed = (place, edge.direction) in unsure
            outcomes.append(
                Outcome(answer=Answer.AMBIGUOUS if listed else Answer.NOTHING, truth=truth)
            )
            continue
        low, high = best.bounds
        outcomes.append(
            Outcome(
                answer=answer,
                nights=best.told - edge.night,
                truth=truth,
                ratio=best.ratio,
                is_covered=low <= truth <= high,
            )
        )
    return outcomes, false


def _answer(rig: Rig, edge: Edge, change: Told, nights: int) -> Answer:
    if change.cause not in edge.causes:
        return Answer.BLAMED
    is_new, bundle, driver = change.moved
    first = [
        next(night for night in range(at, nights) if night not in rig.away)
        for at in sorted({edge.night, edge.last})
    ]
    if change.cause in (Cause.KERNEL, Cause.UNKNOWN):
        between = [rig.build(night) for night in range(first[0], first[-1] + 1)]
        is_right = is_new and bundle in {rig.bundle(build).sha for build in between}
    elif change.cause == Cause.ENVIRONMENT:
        is_right = driver == rig.environment(first[0]).driver_version
    else:
        is_right = True
    return Answer.RIGHT if is_right else Answer.MISPLACED


def _told(tx: Transaction, lab: Lab) -> dict[Place, list[Told]]:
    """The confirmed changes that regressions and improvements have, by series."""
    found: dict[Place, list[Told]] = {}
    for row in inbox.regressions(tx):
        story = inbox.story(tx, row.id)
        for member in story.members:
            told = max(member.found_at, row.opened_at)
            place = (member.device, member.case_name, member.metric)
            found.setdefault(place, []).append(
                Told(
                    night=lab.nights.get(member.after_job, -1),
                    told=_night(lab, told),
                    direction=row.direction,
                    cause=row.cause,
                    moved=(
                        member.before_kernel != member.after_kernel,
                        member.after_bundle if member.after_bundle != member.before_bundle else "",
                        member.after_driver_version
                        if member.after_driver_version != member.before_driver_version
                        else "",
                    ),
                    ratio=member.ratio or 1.0,
                    bounds=(member.low or 0.0, member.high or 0.0),
                    regression=row.id,
                )
            )
    return found


def _night(lab: Lab, at: float) -> int:
    """The night whose results were the last before a moment, or end with it."""
    return sum(moment <= at + 2 for moment in lab.moments) - 1


def _states(tx: Transaction) -> Mapping[int, str]:
    return {row.id: row.state for row in inbox.regressions(tx)}


def _is_open(told: Sequence[Told], states: Mapping[int, str]) -> bool:
    slower = [change for change in told if change.direction == Direction.SLOWER]
    return any(states[change.regression] in UNSETTLED for change in slower)


def _is_slower(rig: Rig, stream: Stream, metric: str, nights: int) -> bool:
    last = nights - 1
    level = stream.level(metric, rig.build(last), rig.driver(last), last)
    return level > OPEN * stream.level(metric, 0, 0, 0)
