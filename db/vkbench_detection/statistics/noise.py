"""How a series scatters while nothing changes, and which changes that hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import numpy as np

from vkbench_detection.statistics.pairs import LEAST_CHANGE
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.screen import SIGMA_FLOOR, SIGMA_OF_MAD

LEAST = 8  # values that a profile needs
PAIRS = 12  # of a confirmation, which the smallest effect is told for
DETECTABLE_SIGMAS = 3.5
DRIFTING = 0.3  # correlation of a result with the next
CHANCE_SIGMAS = 3.0  # correlations of so many standard errors are none by chance
CLIP = 4.0  # sigmas that a value counts for in a correlation
MODAL = 4.0  # sigmas between two modes; halves of one normal mode are 2.7 apart
SMALLEST_MODE = 0.1  # share of values; fewer are outliers
SKEWED = 0.001  # p of the skewness test


class NoiseKind(StrEnum):
    """What a series' noise is like, the gravest first."""

    DRIFTING = "drifting"  # a result resembles the one before
    MODAL = "modal"  # two levels
    SKEWED = "skewed"  # outliers to one side
    NORMAL = "normal"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The noise of a series in which nothing changed."""

    count: int
    sigma: float  # relative; 1.4826 MAD, at least 0.3 %
    kind: NoiseKind
    ar1: float  # correlation of a result with the next
    mde: float  # relative change of which 12 pairs make 3.5 standard errors
    floor: float  # relative change below which a page should say that it cannot be seen


def profile(values: Sequence[float]) -> Profile:
    """The noise of at least 8 positive values of one segment, in their order."""
    if len(values) < LEAST:
        raise ValueError(f"{len(values)} values have no noise profile, {LEAST} have")
    logs = np.log(np.asarray(values, dtype=np.float64))
    sigma = sigma_of(logs)
    deviations = np.clip((logs - np.median(logs)) / sigma, -CLIP, CLIP)
    ar1 = _correlation(deviations[:-1], deviations[1:])
    mde = DETECTABLE_SIGMAS * sigma * sqrt(2 / PAIRS)
    return Profile(
        count=len(values),
        sigma=sigma,
        kind=_kind(logs, ar1),
        ar1=ar1,
        mde=mde,
        floor=max(LEAST_CHANGE, 2 * mde),
    )


def scatter(logs: Floats) -> float:
    """The robust standard deviation of logarithms: their scaled median absolute deviation.

    In numpy, because hosts without scipy calibrate their devices and judge canaries too.
    """
    return SIGMA_OF_MAD * float(np.median(np.abs(logs - np.median(logs))))


def sigma_of(logs: Floats) -> float:
    """The scatter of logarithms, but never less than a series is taken to have."""
    return max(SIGMA_FLOOR, scatter(logs))


def _kind(logs: Floats, ar1: float) -> NoiseKind:
    from scipy.stats import skewtest

    if ar1 >= max(DRIFTING, CHANCE_SIGMAS / sqrt(len(logs))):
        return NoiseKind.DRIFTING
    if np.ptp(logs) <= 2 * SIGMA_FLOOR:  # ticks of a timer, or all the same
        return NoiseKind.NORMAL
    if _distance_of_modes(logs) >= MODAL:
        return NoiseKind.MODAL
    return NoiseKind.SKEWED if skewtest(logs).pvalue < SKEWED else NoiseKind.NORMAL


def _distance_of_modes(logs: Floats) -> float:
    """Distance between the two clusters, in sigmas."""
    ordered = np.sort(logs)
    count = len(ordered)
    least = max(2, int(np.ceil(SMALLEST_MODE * count)))
    halves = [(ordered[:cut], ordered[cut:]) for cut in range(least, count - least + 1)]
    low, high = min(halves, key=lambda half: sum(len(part) * float(part.var()) for part in half))
    sigma = sqrt((float(low.var()) + float(high.var())) / 2)
    return float(high.mean() - low.mean()) / max(sigma, SIGMA_FLOOR / 10)


def _correlation(first: Floats, second: Floats) -> float:
    if not (first.std() and second.std()):
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
