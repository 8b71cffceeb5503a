"""How often a device's results differ by chance, far from where most of them lie.

The noise of a series is a robust width: a night that a neighbour's work disturbed, or three
results in a hundred that take a tenth longer, do not widen it. In a table of hundreds of cases
some are such results, so that their p is taken from what the device's results differed by while
nothing changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, log
from typing import Final

LEAST: Final = 50  # differences: fewer have no tail of their own
BEYOND: Final = 3  # differences that are counted; beyond, the tail falls as those before it do
STEEPEST: Final = 8.0  # power by which a tail is believed to fall, at most and at least
FLATTEST: Final = 2.0
PRESUMED: Final = 4.0  # degrees of freedom of Student's t where nothing is known yet


@dataclass(frozen=True, kw_only=True)
class Tails:
    """What results of a device differed by while nothing changed, in sigmas of their series."""

    sigmas: Sequence[float] = ()  # of differences, the smallest first; () where too few are known

    @classmethod
    def of(cls, differences: Sequence[float]) -> Tails:
        """The tails of differences in sigmas, whatever their signs."""
        known = sorted(map(abs, differences))
        return cls(sigmas=known if len(known) >= LEAST else ())

    def p(self, sigmas: float) -> float:
        """How likely a difference is to be so large, or larger, by chance."""
        if not self.sigmas:
            return _presume_tail(sigmas)
        count = len(self.sigmas)
        larger = count - bisect_left(self.sigmas, sigmas)
        if larger >= BEYOND or not self.sigmas[-BEYOND]:
            return (larger + 1) / (count + 1)
        beyond = (BEYOND + 1) / (count + 1)
        return beyond * float((self.sigmas[-BEYOND] / sigmas) ** self._steepness())

    def _steepness(self) -> float:
        """The power by which the largest differences become rare, by Hill's estimate."""
        taken = self.sigmas[-max(2 * BEYOND, len(self.sigmas) // 50) :]
        rise = fsum(log(value / taken[0]) for value in taken[1:] if taken[0]) / (len(taken) - 1)
        return min(STEEPEST, max(FLATTEST, 1 / rise if rise else STEEPEST))


def _presume_tail(sigmas: float) -> float:
    from scipy.special import stdtr

    return 2 * float(stdtr(PRESUMED, -sigmas))
