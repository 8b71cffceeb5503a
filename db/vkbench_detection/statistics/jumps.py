"""Does a series jump at a place, beyond what it moves there anyway?

A series that wanders slowly has many results on one side of its mean, so that a test of ranks sees
changes everywhere; corrected for that, it sees none at all. But such a series moves little from a
few results to the next few. So a jump is held against all movements of its own series: the median
of three results less the median of the three before, at each place. And it is held against the
whole wander, since a series that comes and goes by 3 % may do so once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np

from vkbench_detection.statistics.ratios import CONFIDENCE, Floats, Ratio
from vkbench_detection.statistics.screen import SIGMA_FLOOR, SIGMA_OF_MAD

RAMP = 12  # results on each side among which a step is told from a slope
BESIDE = 3  # results on each side; of five, a slow wave moves too far meanwhile
LASTING = 0.5  # share of a jump that the levels on both sides must keep
WANDER_SIGMAS = 3.0  # of the whole wander, which a certain change exceeds


@dataclass(frozen=True)
class Jumps:
    """How far a series moves at each of its places, and how unusual that is for it."""

    changes: Floats  # logarithms; the first one is at the place BESIDE
    sigma: float  # of a usual one
    results: int

    def at(self, place: int) -> Ratio:
        """The jump to the result at a place, which has BESIDE results on each side of it."""
        change = float(self.changes[place - BESIDE])
        width = self.sigma * self._quantile((1 + CONFIDENCE) / 2)
        return Ratio(
            ratio=exp(change),
            low=exp(change - width),
            high=exp(change + width),
            p=self._p(change),
        )

    @property
    def _freedom(self) -> float:
        """How many movements share no result, which is how many tell their sigma."""
        return self.results / (2 * BESIDE)

    def _quantile(self, share: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(self._freedom, share))

    def _p(self, change: float) -> float:
        """Two-sided, by Student: the sigma is known from few movements."""
        from scipy.special import stdtr

        return float(2 * stdtr(self._freedom, -abs(change) / self.sigma))


def jumps(logs: Floats) -> Jumps:
    """The movements of a series of at least 2 * BESIDE results."""
    windows = np.lib.stride_tricks.sliding_window_view(logs, BESIDE)
    middles = np.median(windows, axis=1)
    changes = middles[BESIDE:] - middles[:-BESIDE]
    sigma = max(SIGMA_FLOOR, SIGMA_OF_MAD * float(np.median(np.abs(changes))))
    return Jumps(changes, sigma, len(logs))


def lasts(jump: Ratio, levels: Ratio) -> bool:
    """Whether the levels on both sides keep a jump: a few results that are off are none."""
    kept = log(levels.ratio) / log(jump.ratio) if jump.ratio != 1 else 0.0
    return kept >= LASTING


def is_sudden(before: Floats, after: Floats) -> bool:
    """Whether two levels describe the results around a place better than a slope does."""
    before, after = before[-RAMP:], after[:RAMP]
    steps = np.concatenate([before - before.mean(), after - after.mean()])
    both = np.concatenate([before, after])
    places = np.arange(len(both)) - (len(both) - 1) / 2
    centred = both - both.mean()
    slope = float(places @ centred) / float(places @ places)
    rest = centred - slope * places
    return float(steps @ steps) <= float(rest @ rest)


def exceeds_wander(
    change: Ratio, logs: Floats, ends: Sequence[int], sigmas: float = WANDER_SIGMAS
) -> bool:
    """Whether a change is larger than what the series comes and goes by between its changes."""
    rest = residuals(logs, ends)
    return abs(log(change.ratio)) >= sigmas * float(rest.std())


def residuals(logs: Floats, ends: Sequence[int]) -> Floats:
    """A series without its levels; `ends` has 0, where each new level begins, and the length."""
    levels = [logs[start:end] for start, end in pairwise(ends)]
    return np.concatenate([level - np.median(level) for level in levels])
