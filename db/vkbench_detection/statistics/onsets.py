"""With which result did a change begin? Where a kernel or a driver moved, rather than beside it.

The first result that looks odd seldom is the first of a new level: at 3 % and 1 % noise the one
before it belongs to the old level in half of all streams. Pairs of such neighbours are of one
bundle, and cannot blame the other. So among the places a few results away where something moved,
the one is taken that describes the results best, unless a place where nothing moved does much
better: a host under load since last night is not the fault of a driver three nights older.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.segments import clip_outliers

NEAR = 8  # results between where a change is seen and where it may have begun
AROUND = 24  # results on each side of a place that are looked at
# How much better, in logarithms of the likelihood, a place may be where nothing moved. Pairs show
# whether a kernel is to blame, and nothing shows it of a driver.
TOLERANCE = 5.0


@dataclass(frozen=True, kw_only=True)
class Onset:
    """With which result a change probably began."""

    index: int
    is_moved: bool  # whether something moved there


def find_onset(logs: Sequence[float], index: int, moved: Collection[int]) -> Onset:
    """The place of a change that is seen at an index; `moved` are the places that explain one.

    All results have the level before it or the one after it: a caller leaves others out.
    """
    first = max(0, index - AROUND)
    values, sigma = clip_outliers(np.asarray(logs[first : index + AROUND], dtype=np.float64))
    places = range(max(1, index - first - NEAR), min(len(values) - 1, index - first + NEAR) + 1)
    fits = {first + place: _fit(values, place, sigma) for place in places}
    if not fits:
        return Onset(index=index, is_moved=index in moved)
    best = max(fits, key=lambda place: (fits[place], place == index))
    likely = [place for place in fits if place in moved and fits[best] - fits[place] <= TOLERANCE]
    if likely:
        return Onset(index=max(likely, key=lambda place: fits[place]), is_moved=True)
    return Onset(index=best, is_moved=False)


def _fit(values: Floats, place: int, sigma: float) -> float:
    """Logarithm of the likelihood that two levels meet at a place, up to what places share."""
    before, after = values[:place], values[place:]
    squares = np.square(before - before.mean()).sum() + np.square(after - after.mean()).sum()
    return -float(squares) / (2 * sigma * sigma)
