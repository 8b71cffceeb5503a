"""How large a change is: what is measured after it was confirmed tells it, and nothing before.

Pairs are looked at until they decide, so the pairs that confirm a change are those in which it
looked large. Of a true 1 % at 1 % noise they say 1.76 % on average, and their intervals cover the
truth in 66 of 100 cases; eight pairs that are measured after them say 0.96 % and cover it in 96.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vkbench_detection.statistics.pairs import LOOKS, PairJudgement
from vkbench_detection.statistics.ratios import Ratio, shift

LATER = 8  # pairs after the decision, or values that are held against a series


def decided(judge: Callable[[int], PairJudgement], count: int) -> tuple[PairJudgement, int]:
    """The judgement of the first look that decides, and how many it looked at; else of all `count`.

    `judge` judges the first so many.
    """
    for look in LOOKS:
        if look.pairs <= count and (found := judge(look.pairs)).is_final:
            return found, look.pairs
    return judge(count), count


def size(old: Sequence[float], new: Sequence[float]) -> Ratio | None:
    """The ratio of what was measured after the decision; None where it is not enough yet."""
    if min(len(old), len(new)) < LATER:
        return None
    return shift(np.log(np.asarray(old)), np.log(np.asarray(new))).as_ratio()
