"""Decides when enough samples are taken: at a bound on noise or on time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from vkbench_worker.timing.statistics import half_width

LEAST_SAMPLES: Final = 5  # fewer are told with a warning
_LEAST_FOR_NOISE: Final = 10  # an interval over fewer says little
_GROWTH: Final = 1.1  # samples between two looks, so that looking costs little


class Stop(Protocol):
    """A bound at which timing stops."""

    @property
    def name(self) -> str: ...

    def is_reached(self, samples: Sequence[float], elapsed: float) -> bool: ...


@dataclass
class NoiseBound:
    """The median is known well enough: its interval is within +- `relative` of it.

    Samples of less than `least_seconds` in all are not believed: while a clock climbs, a few
    milliseconds agree with each other and not with the next.
    """

    relative: float
    least_seconds: float = 0.0
    name: str = "noise"
    _next: int = field(default=_LEAST_FOR_NOISE, init=False)

    def is_reached(self, samples: Sequence[float], elapsed: float) -> bool:
        if len(samples) < self._next or elapsed < self.least_seconds:
            return False
        self._next = int(len(samples) * _GROWTH) + 1
        return half_width(samples) <= self.relative


@dataclass(frozen=True)
class TimeLimit:
    """The time that this metric may take is over."""

    seconds: float
    name: str = "time"

    def is_reached(self, samples: Sequence[float], elapsed: float) -> bool:
        return elapsed >= self.seconds


def first_reached(bounds: Sequence[Stop], samples: Sequence[float], elapsed: float) -> str:
    """Name of the first bound that is reached, or ""."""
    return next((bound.name for bound in bounds if bound.is_reached(samples, elapsed)), "")
