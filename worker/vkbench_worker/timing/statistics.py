"""Numbers about samples that assume nothing of their distribution: MAD, median's interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log, sqrt
from statistics import median
from typing import Final

CONFIDENCE: Final = 0.95
_FAR: Final = 5.0  # square roots of the count from the middle: ten standard deviations


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where the true median lies, and how sure that is."""

    low: float
    high: float
    confidence: float  # reached: at least what was asked for, or the most that so few samples give


def interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The narrowest symmetric pair of order statistics that holds the median so surely."""
    ordered = sorted(samples)
    rank, reached = _rank(len(ordered), confidence)
    return Interval(low=ordered[rank], high=ordered[-1 - rank], confidence=reached)


def half_width(samples: Sequence[float]) -> float:
    """Half the width of the median's interval, relative to the median."""
    bounds, middle = interval(samples), median(samples)
    return (bounds.high - bounds.low) / (2 * middle) if middle > 0 else float("inf")


def deviation(samples: Sequence[float]) -> float:
    """Median absolute deviation from the median, not scaled."""
    middle = median(samples)
    return median(abs(sample - middle) for sample in samples)


@lru_cache(maxsize=4096)
def _rank(count: int, confidence: float) -> tuple[int, float]:
    """(r, coverage) of the interval from the r-th smallest to the r-th largest, counted from 0.

    The median lies outside it when r or fewer samples fall on one side of it: a binomial tail.
    """
    # That so few samples fall on one side has no share of the tail that a float would show.
    rank = max(0, count // 2 - int(_FAR * sqrt(count)))
    outside = chance = 2 * _chance(count, rank)  # all on one side, or all on the other
    while rank + 1 < count - 1 - rank:
        chance *= (count - rank) / (rank + 1)
        if 1 - (outside + chance) < confidence:
            break
        rank, outside = rank + 1, outside + chance
    return rank, 1 - outside


def _chance(count: int, few: int) -> float:
    """That exactly so few of so many samples fall below the median."""
    ways = lgamma(count + 1) - lgamma(few + 1) - lgamma(count - few + 1)
    return exp(ways - count * log(2))
