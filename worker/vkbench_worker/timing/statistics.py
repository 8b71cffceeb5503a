"""Numbers about samples that assume nothing of their distribution: MAD, median's interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from statistics import median
from typing import Final

CONFIDENCE: Final = 0.95


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
    found, middle = interval(samples), median(samples)
    return (found.high - found.low) / (2 * middle) if middle > 0 else float("inf")


def deviation(samples: Sequence[float]) -> float:
    """Median absolute deviation from the median, not scaled."""
    middle = median(samples)
    return median(abs(sample - middle) for sample in samples)


@lru_cache(maxsize=4096)
def _rank(count: int, confidence: float) -> tuple[int, float]:
    """(r, coverage) of the interval from the r-th smallest to the r-th largest, counted from 0.

    The median lies outside it when r or fewer samples fall on one side of it: a binomial tail.
    """
    everything = 1 << count
    outside = 2  # of 2**count equally likely ways: all on one side, or all on the other
    rank, reached = 0, 1 - outside / everything
    while rank + 1 < count - 1 - rank:
        outside += 2 * comb(count, rank + 1)
        if 1 - outside / everything < confidence:
            break
        rank, reached = rank + 1, 1 - outside / everything
    return rank, reached
