"""Stage 1: does a new result look unlike its own series? Cheap, and often wrong on purpose.

Values are natural logarithms of seconds. The level is the median of 30 accepted results that end 20
results ago, so that a small lasting change does not become the level before it is seen. Either one
result lies far off (a jump), or an average that forgets (EWMA) has moved (a drift), in either
direction. What is raised here is settled by `pairs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from math import exp, log, sqrt
from statistics import median
from typing import Any

REFERENCE = 30  # results that the level is taken from
LAG = 20  # results between the reference and now
LEAST = 20  # results of a segment before any is screened: until then compare with a baseline
KEPT = REFERENCE + LAG

JUMP_SIGMAS = 3.0
JUMP_CHANGE = log(1.015)
WEIGHT = 0.2  # of a result in the average
DRIFT_SIGMAS = 2.4 * sqrt(WEIGHT / (2 - WEIGHT))
DRIFT_CHANGE = log(1.012)
CLIP = 4.0  # sigmas that one result counts for at most
REFUSED_SIGMAS = 4.0  # a result as far off does not become part of the level
SKIPPED = 2  # results after an alarm that raise none, unless it is dismissed before
MOVED = 5  # refused results in a row that, with an alarm dismissed, are a new level of the device

SIGMA_OF_MAD = 1.4826  # of normal noise
SIGMA_FLOOR = 0.003
LEAST_RECENT = 8  # results after the reference from which they help to tell the noise
CLIPPED_SIGMAS = 3.0  # wilder results say nothing of the noise
# Clipping, and that deviations are from medians of the same results, take away as much on average.
SIGMA_OF_CLIPPED = 1.03


class Direction(StrEnum):
    """Whether times became slower or faster."""

    SLOWER = "slower"
    FASTER = "faster"


class Rule(StrEnum):
    """What raised an alarm."""

    JUMP = "jump"
    DRIFT = "drift"


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """A suspicion that a rule raised at a result."""

    direction: Direction
    rule: Rule
    index: int  # of the result that raised it, counted from the series' first
    since: int  # index of the result with which the change probably began
    ratio: float  # to the level: of the result, or of the average
    sigmas: float  # how far off the result is


@dataclass(frozen=True, kw_only=True)
class ScreenState:
    """What screening remembers of a series; a change of any kind makes a new one."""

    count: int = 0  # results seen
    start: int = 0  # index of the segment's first result
    values: tuple[float, ...] = ()  # the last accepted of the segment, at most KEPT
    indices: tuple[int, ...] = ()  # theirs
    refused: tuple[tuple[int, float], ...] = ()  # the last not accepted: index and value
    ewma: float = 0.0  # in sigmas
    moving_since: int = 0  # index from which the average is on its present side
    skip: int = 0  # results that will raise no alarm

    @property
    def is_ready(self) -> bool:
        """Whether the next result will be screened."""
        return len(self.values) >= LEAST

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold; nothing is rounded."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ScreenState:
        """The state that `to_plain` wrote, be it through JSON."""
        refused = tuple((int(index), float(value)) for index, value in plain["refused"])
        lists = {name: tuple(plain[name]) for name in ("values", "indices")}
        return cls(**{**plain, **lists, "refused": refused})


def step(state: ScreenState, value: float) -> tuple[ScreenState, Alarm | None]:
    """Take in the next result's logarithm."""
    if not state.is_ready:
        return _take_value(state, value, accept=True), None
    level, sigma = reference(state.values)
    sigmas = (value - level) / sigma
    ewma = (1 - WEIGHT) * state.ewma + WEIGHT * max(-CLIP, min(CLIP, sigmas))
    since = state.moving_since if ewma * state.ewma > 0 else state.count
    taken = _take_value(state, value, accept=abs(sigmas) < REFUSED_SIGMAS)
    if state.skip:
        return replace(taken, skip=state.skip - 1), None
    if abs(sigmas) >= JUMP_SIGMAS and abs(value - level) >= JUMP_CHANGE:
        alarm = _alarm(Rule.JUMP, state.count, state.count, value - level, sigmas)
    elif abs(ewma) >= DRIFT_SIGMAS and abs(ewma * sigma) >= DRIFT_CHANGE:
        alarm = _alarm(Rule.DRIFT, state.count, since, ewma * sigma, sigmas)
    else:
        return replace(taken, ewma=ewma, moving_since=since), None
    return replace(taken, ewma=0.0, moving_since=taken.count, skip=SKIPPED), alarm


def after_dismissal(state: ScreenState) -> ScreenState:
    """The state after pairs found old and new the same, or nothing for certain.

    If the last results were all refused, then not the kernel but the device has a new level: they
    begin a segment (`start` moves), or each of the following would raise the same alarm again.
    """
    streak = _refused_streak(state)
    if len(streak) < MOVED:
        return replace(state, skip=0)
    return after_change(state, streak[0])


def after_change(state: ScreenState, start: int) -> ScreenState:
    """The state after a change was confirmed: a segment begins with the result of this index."""
    kept = dict(zip(state.indices, state.values, strict=True)) | dict(state.refused)
    of_segment = sorted(index for index in kept if index >= start)
    return ScreenState(
        count=state.count,
        start=start,
        values=tuple(kept[index] for index in of_segment)[-KEPT:],
        indices=tuple(of_segment)[-KEPT:],
        moving_since=state.count,
    )


def replay_values(values: Iterable[float], state: ScreenState | None = None) -> ScreenState:
    """The state after values that raise no alarm, whatever they are: a known good history."""
    state = state or ScreenState()
    for value in values:
        state, _ = step(state, value)
    return replace(state, ewma=0.0, moving_since=state.count, skip=0)


def reference(values: tuple[float, ...]) -> tuple[float, float]:
    """Level and sigma that the next result is held against.

    The MAD of 30 results is off by a fifth, which alone makes every second false alarm at 1 %
    noise. So it only says which results are wild, and sigma is the deviation of the others, those
    after the reference about a median of their own: 64 extra jobs per 1000 results and not 135.
    """
    cut = max(LEAST, len(values) - LAG)
    old, recent = values[:cut], values[cut:]
    level = median(old)
    deviations = [abs(value - level) for value in old]
    if len(recent) >= LEAST_RECENT:
        middle = median(recent)
        deviations += [abs(value - middle) for value in recent]
    widest = CLIPPED_SIGMAS * SIGMA_OF_MAD * median(deviations)
    squares = [deviation * deviation for deviation in deviations if deviation <= widest]
    return level, max(SIGMA_FLOOR, SIGMA_OF_CLIPPED * sqrt(sum(squares) / (len(squares) - 1)))


def _take_value(state: ScreenState, value: float, *, accept: bool) -> ScreenState:
    if accept:
        return replace(
            state,
            count=state.count + 1,
            values=(*state.values, value)[-KEPT:],
            indices=(*state.indices, state.count)[-KEPT:],
        )
    refused = (*state.refused, (state.count, value))[-KEPT:]
    return replace(state, count=state.count + 1, refused=refused)


def _refused_streak(state: ScreenState) -> list[int]:
    """Indices of the last results in a row that were refused on one side."""
    streak: list[int] = []
    level = median(state.values) if state.values else 0.0
    for index, value in reversed(state.refused):
        above = value > level
        expected = state.count - 1 - len(streak)
        if index != expected or above != (state.refused[-1][1] > level):
            break
        streak.insert(0, index)
    return streak


def _alarm(rule: Rule, index: int, since: int, change: float, sigmas: float) -> Alarm:
    return Alarm(
        direction=Direction.SLOWER if change > 0 else Direction.FASTER,
        rule=rule,
        index=index,
        since=since,
        ratio=exp(change),
        sigmas=sigmas,
    )
