"""Stage 3: where do the levels of a whole series change? For the nightly pass, not for each result.

ruptures cuts generously; then the weakest boundary falls, again and again, until ranks of both
sides and the size of the change speak for every one that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    found = _ratios(logs, left)
    while found:
        weak = [at for at, ratio in found.items() if not _stands(ratio)]
        if not weak:
            break
        left.remove(max(weak, key=lambda at: (found[at].p, -abs(log(found[at].ratio)))))
        found = _ratios(logs, left)
    return list(found.items())


def _ratios(logs: Floats, boundaries: Sequence[int]) -> dict[int, Ratio]:
    """Each boundary with the ratio of the levels beside it."""
    ends = [0, *boundaries, len(logs)]
    sides = zip(ends, ends[1:], ends[2:], strict=False)
    return {at: shift(logs[start:at], logs[at:end]).as_ratio() for start, at, end in sides}


def _stands(ratio: Ratio) -> bool:
    return ratio.is_significant(alpha=P, floor=LEAST_CHANGE)
