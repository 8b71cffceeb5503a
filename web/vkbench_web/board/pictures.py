"""Pictures of a board: where the middle half of timings lies, and a case's badge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import Final

from vkbench_detection.board.standings import Group

WIDTH: Final = 200.0
_EDGE: Final = 3.0
_CHARACTER: Final = 6.6  # pixels of a letter in a badge, about
_ROOM: Final = 12.0
_LEAST_RATIO: Final = 1.05  # of the scale's ends: less would make mountains of noise


@dataclass(frozen=True, kw_only=True)
class Box:
    """A group on a logarithmic scale: 5, 25, 50, 75 and 95 % of its timings."""

    at: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A logarithmic scale that several groups share."""

    low: float
    high: float

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Scale:
        """The scale that has room for all groups."""
        ends = [(group.shares[0], group.shares[-1]) for group in groups]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        pad = max(1.0, _LEAST_RATIO / (high / low)) ** 0.5
        return cls(low=low / pad, high=high * pad)

    def box(self, group: Group) -> Box:
        """Where a group lies on the scale."""
        span = log(self.high / self.low)
        room = WIDTH - 2 * _EDGE
        places = (_EDGE + room * log(value / self.low) / span for value in group.shares)
        return Box(at=tuple(round(place, 1) for place in places))


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A label and a value beside each other."""

    label: str
    value: str

    @property
    def widths(self) -> tuple[int, int]:
        """How many pixels wide the label and the value are."""
        return _width(self.label), _width(self.value)


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER + _ROOM)
