"""Stage 3: where do the levels of a whole series change? For the nightly pass, not for each result.

ruptures cuts generously; then the weakest boundary falls, again and again, until ranks of both
sides and the size of the change speak for every one that is left. Results that remember those
before count for fewer: on 200 series of 120 results without a change that leaves 4 and not 55
boundaries in AR(1) noise, 14 and not 66 in day drift, and of changes of 5 % it costs 2 in 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt

import numpy as np

from vkbench_db.statistics.ratios import Floats, Ratio, shift
from vkbench_db.statistics.screen import SIGMA_FLOOR

LAST = 200  # results that are looked at
SHORTEST = 5  # results of a level
WINDOW = 7  # results of the running median, about which outliers are clipped
CLIP = 4.0  # sigmas
PENALTY = 6.0  # times ln n times the variance, for each boundary
P = 1e-4  # two-sided, of the levels on both sides
LEAST_CHANGE = 0.02
CREEP = 0.001  # relative: the memory of what scatters by less matters to no change
CHANCE_SIGMAS = 2.0  # correlations of so many standard errors are none by chance


@dataclass(frozen=True, kw_only=True)
class Change:
    """The level changes."""

    index: int  # of the first result of the new level
    ratio: Ratio  # new level over old


def find(values: Sequence[float]) -> list[Change]:
    """The changes of level among the last 200 results, the oldest first."""
    skipped = max(0, len(values) - LAST)
    logs = np.log(np.asarray(values[skipped:], dtype=np.float64))
    if len(logs) < 2 * SHORTEST:
        return []
    clipped, sigma = _clipped(logs)
    kept = _strong(clipped, _boundaries(clipped / sigma))
    return [Change(index=skipped + index, ratio=ratio) for index, ratio in kept]


def _clipped(logs: Floats) -> tuple[Floats, float]:
    """The series without its outliers, and its sigma, which steps do not widen."""
    from scipy.ndimage import median_filter
    from scipy.stats import median_abs_deviation

    spread = float(median_abs_deviation(np.diff(logs), scale="normal"))
    sigma = max(SIGMA_FLOOR, spread / sqrt(2))
    middle = np.asarray(median_filter(logs, size=WINDOW, mode="nearest"), dtype=np.float64)
    return np.clip(logs, middle - CLIP * sigma, middle + CLIP * sigma), sigma


def _boundaries(standard: Floats) -> list[int]:
    from ruptures import KernelCPD

    search = KernelCPD(kernel="linear", min_size=SHORTEST).fit(standard)
    return [int(end) for end in search.predict(pen=PENALTY * log(len(standard)))[:-1]]


def _strong(logs: Floats, boundaries: Sequence[int]) -> list[tuple[int, Ratio]]:
    """Boundaries that stand, with their ratios; the weakest goes first."""
    left = list(boundaries)
    while left:
        found = _ratios(logs, left)
        weak = [at for at in left if not found[at].is_significant(alpha=P, floor=LEAST_CHANGE)]
        if not weak:
            return list(found.items())
        left.remove(max(weak, key=lambda at: (found[at].p, -abs(log(found[at].ratio)))))
    return []


def _ratios(logs: Floats, boundaries: Sequence[int]) -> dict[int, Ratio]:
    """Each boundary with the ratio of the levels beside it."""
    ends = [0, *boundaries, len(logs)]
    stretch = _stretch(logs, ends)
    sides = zip(ends, ends[1:], ends[2:], strict=False)
    return {
        at: shift(logs[start:at], logs[at:end]).as_ratio().stretched(stretch)
        for start, at, end in sides
    }


def _stretch(logs: Floats, ends: Sequence[int]) -> float:
    """How much wider a mean scatters than if each result were for itself.

    The memory of what scatters by less than CREEP counts for little: a GPU whose results creep by
    a few ten-thousandths shows a step of ten percent in a dozen of them.
    """
    levels = [logs[start:end] for start, end in pairwise(ends)]
    rest = np.concatenate([level - np.median(level) for level in levels])
    memory = float(rest[:-1] @ rest[1:]) / (float(rest @ rest) + len(rest) * CREEP**2)
    if memory <= CHANCE_SIGMAS / sqrt(len(logs)):
        return 1.0
    return sqrt((1 + memory) / (1 - memory))
