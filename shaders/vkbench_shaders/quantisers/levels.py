"""Levels: the values that the codes of a format stand for, before its scale multiplies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]

_STEPS = 2  # steps per unit, so that midpoints fall on steps
_HALF = 256  # steps from 0 to the end of a table


@dataclass(frozen=True, kw_only=True)
class Integers:
    """All integers from `least` to `most`; the code of an integer is its distance to `least`."""

    least: int
    most: int

    @property
    def is_symmetric(self) -> bool:
        """Whether both ends are equally far from 0."""
        return self.least == -self.most

    @property
    def largest(self) -> float:
        """The level of the largest magnitude."""
        return self.least if -self.least > self.most else self.most

    def nearest(self, values: Floats, weights: Floats) -> Floats:
        """The level nearest to each value, which it replaces."""
        np.rint(values, out=values)
        return np.clip(values, self.least, self.most, out=values)

    def codes(self, levels: Floats) -> Codes:
        """The codes of levels."""
        return (levels - self.least).astype(np.uint8)


class Table:
    """Whole numbers between -128 and 127, in their order; the code of a level is its place."""

    def __init__(self, levels: Sequence[int]) -> None:
        self.largest: float = max(levels, key=abs)
        self.is_symmetric = -self.largest in levels
        ordered = np.array(levels, np.float32)
        middles = (ordered[:-1] + ordered[1:]) / 2
        steps = np.arange(-_HALF, _HALF) / _STEPS
        self._places = np.searchsorted(middles, steps, side="right").astype(np.uint8)
        self._levels = ordered[self._places]

    def nearest(self, values: Floats, weights: Floats) -> Floats:
        """The level nearest to each value; the upper one in the middle of two."""
        return self._levels.take(_steps(values))

    def codes(self, levels: Floats) -> Codes:
        """The codes of levels."""
        return self._places.take(_steps(levels))


def _steps(values: Floats) -> NDArray[np.int16]:
    steps = np.floor(values * np.float32(_STEPS))
    np.clip(steps, -_HALF, _HALF - 1, out=steps)
    steps += _HALF
    return np.asarray(steps.astype(np.int16))


class Levels(Protocol):
    """Levels of any kind: of single values, or of vectors of values that lie behind each other."""

    @property
    def largest(self) -> float:
        """The level of the largest magnitude."""

    @property
    def is_symmetric(self) -> bool:
        """Whether no level is larger than those of the other sign, or other signs do not occur."""

    def nearest(self, values: Floats, weights: Floats) -> Floats:
        """The levels nearest to values (elements of a group, groups...), by weights for vectors."""

    def codes(self, levels: Floats) -> NDArray[np.unsignedinteger]:
        """The codes of levels, one for each vector."""
