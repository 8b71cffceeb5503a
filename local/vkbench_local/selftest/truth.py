"""The changes planted in a simulated series, which the detection should report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vkbench_detection.changes.decisions import Cause
from vkbench_detection.statistics.screen import Direction
from vkbench_local.selftest.rigs import Rig, Step, Stream

EARLY = 8  # nights by which a change may be placed before it happened, and is still told of it
LATE = 25  # nights after it within which it has to be told
OPEN = 1.01  # a case that is slower than this by what was planted has an open regression


@dataclass(frozen=True, kw_only=True, eq=False)
class Edge:
    """A planted change of a series, at one moment."""

    night: int
    last: int  # of a slow change, the night of its last step; else the same
    ratio: float  # new level over old
    parts: Mapping[Cause, float]  # of it, what each cause brings
    causes: Collection[Cause]  # any of which is right
    is_wanted: bool  # whether people have to hear of it

    @property
    def direction(self) -> Direction:
        """Whether times become slower or faster."""
        return Direction.SLOWER if self.ratio > 1 else Direction.FASTER

    def size(self, cause: str) -> float | None:
        """The ratio that a change of a cause should tell; None of a slow one, which has parts."""
        return self.parts.get(Cause(cause), self.ratio) if self.night == self.last else None

    def is_near(self, night: int) -> bool:
        """Whether a change that is placed at a night may be this one."""
        return self.night - EARLY <= night <= self.last + LATE


def edges(stream: Stream, metric: str, nights: int) -> list[Edge]:
    """The planted changes of a series: steps of one night are one, so are those of a slow one."""
    steps = [step for step in stream.steps if metric in step.metrics]
    moments = sorted({at for step in steps for at in (step.night, step.until) if at < nights})
    if stream.is_gradual and moments:
        return [_edge(steps, metric, moments[0], moments[-1])]
    return [_edge(steps, metric, moment, moment) for moment in moments]


def _edge(steps: Sequence[Step], metric: str, first: int, last: int) -> Edge:
    moved = [step for step in steps if first <= step.night <= last or first <= step.until <= last]
    parts = {
        cause: _ratio([step for step in steps if step.cause == cause], metric, first, last)
        for cause in {step.cause for step in moved}
    }
    return Edge(
        night=first,
        last=last,
        ratio=_ratio(steps, metric, first, last),
        parts=parts,
        causes=(*parts, Cause.UNKNOWN) if len(parts) > 1 else tuple(parts),
        is_wanted=any(step.is_wanted for step in moved),
    )


def _ratio(steps: Sequence[Step], metric: str, first: int, last: int) -> float:
    """Time in the last of these nights over time before the first, by these steps."""
    before = prod(step.factor for step in steps if step.holds(first - 1, metric))
    return prod(step.factor for step in steps if step.holds(last, metric)) / before


def is_slower(rig: Rig, stream: Stream, metric: str, nights: int) -> bool:
    """Whether a series ends slower than it began."""
    last = nights - 1
    level = stream.level(metric, rig.build(last), rig.driver(last), last)
    return level > OPEN * stream.level(metric, 0, 0, 0)


def bringing(rig: Rig, edge: Edge, nights: int) -> tuple[set[str], str]:
    """The bundles of which the first measured one brought a change, and the driver."""
    first, last = (
        next(night for night in range(at, nights) if night not in rig.away)
        for at in (edge.night, edge.last)
    )
    builds = {rig.build(night) for night in range(first, last + 1)}
    return {rig.bundle(build).sha for build in builds}, rig.version(first)
