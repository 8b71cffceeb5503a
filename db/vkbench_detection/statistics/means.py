"""Means of ratios that share something: a device's day moves all its timings together.

Many cases of one device tell much of that day and little of another, so that the scatter of their
ratios says nothing of how sure their mean is. What a device's runs differed by, as a whole, while
nothing changed does; and of several devices, what these differ by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from vkbench_detection.statistics.ratios import CONFIDENCE, Floats, Mean

LEAST_RUNS = 3  # without a change, for a device's day to have a size
LEAST_REMEMBERED = 8  # runs from which one is held against the next
CHANCE_SIGMAS = 2.0  # a correlation of fewer standard errors is none
MEDIAN_EXCESS = 0.25  # share by which the variance of medians of a dozen runs is over their mean's
MOST_MEMORY = 0.9  # correlation of a run with the next: of more, hundreds of runs would be one

Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class DaySpread:
    """What the runs of a device differ by as a whole, while nothing changes."""

    sigma: float  # of a run's mean, as a logarithm
    freedom: float  # degrees of freedom that it was found with
    memory: float = 0.0  # correlation of a run with the next

    def variance(self, sides: Mapping[int, int]) -> float:
        """Variance of a mean, by how many sides have so many results."""
        shares = sum(number * self._share(results) for results, number in sides.items())
        return self.sigma**2 * shares / sum(sides.values())

    def _share(self, count: int) -> float:
        """Share of a run's variance that is left in the median of runs in a row."""
        if count < 2:
            return 1.0
        memory = self.memory
        of_mean = 1.0
        if memory:
            rest = 2 * memory * (1 - memory**count) / (count * (1 - memory) ** 2)
            of_mean = (1 + memory) / (1 - memory) - rest
        # a median is less sure than a mean, and hardly so of runs that resemble each other
        of_median = 1 + MEDIAN_EXCESS * (1 - memory) if count > 2 else 1.0
        return min(1.0, of_median * of_mean / count)


def day_spread(logs: Floats, levels: Numbers) -> DaySpread | None:
    """What runs differ by: a row a run, in order, and a column a series; NaN is not measured.

    `levels` says of each value which level of its series it belongs to: one kernel, one
    environment. None where too few runs share levels.
    """
    deviations, freedoms = _deviations(logs, levels)
    measured = np.isfinite(deviations).sum(axis=1)
    is_whole = measured * 2 >= max(1, int(measured.max(initial=0)))  # of the cases
    if is_whole.sum() < LEAST_RUNS:
        return None
    runs = np.nanmean(deviations[is_whole], axis=1)
    freedom = float(np.nanmean(freedoms[is_whole], axis=1).sum())
    return DaySpread(
        sigma=sqrt(float((runs**2).mean())),
        freedom=max(1.0, freedom),
        memory=_memory(runs),
    )


def _deviations(logs: Floats, levels: Numbers) -> tuple[Floats, Floats]:
    """From the mean of each level, as wide as if that were known; what each adds to freedom."""
    deviations = np.full(logs.shape, np.nan)
    freedoms = np.full(logs.shape, np.nan)
    is_measured = np.isfinite(logs)
    values, series = logs[is_measured], np.nonzero(is_measured)[1]
    apart = series * (int(levels.max(initial=0)) + 1) + levels[is_measured]
    _, group, counts = np.unique(apart, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=values) / counts
    count = counts[group]
    shared = np.where(count > 1, count, np.nan)
    deviations[is_measured] = (values - means[group]) * np.sqrt(shared / (shared - 1))
    freedoms[is_measured] = 1 - 1 / shared
    return deviations, freedoms


def _memory(runs: Floats) -> float:
    if len(runs) < LEAST_REMEMBERED or not runs.std():
        return 0.0
    correlation = float(np.corrcoef(runs[:-1], runs[1:])[0, 1])
    if correlation * sqrt(len(runs)) < CHANCE_SIGMAS:
        return 0.0
    return min(MOST_MEMORY, correlation + 1 / len(runs))  # an estimate of few is low


def mean_of_days(middle: float, count: int, variances: Sequence[tuple[float, float]]) -> Mean:
    """The mean of ratios, from its logarithm, with its interval.

    `variances` has what the days of each device add, and with which freedom that was found.
    """
    variance = sum(part for part, _ in variances)
    # Welch and Satterthwaite: each device's day has its own size
    parts = sum(part**2 / freedom for part, freedom in variances)
    low, high = _bounds(middle, sqrt(variance), variance**2 / parts if parts else 1.0)
    return Mean(value=exp(middle), low=low, high=high, count=count)


def mean_without(middle: float, count: int, why: str) -> Mean:
    """The mean without an interval, and why nothing says how sure it is."""
    return Mean(value=exp(middle), low=None, high=None, count=count, why=why)


def mean_of_devices(devices: Sequence[Sequence[float]], *, weighted: bool = True) -> Mean:
    """The mean of at least two devices' ratios, by what the devices' own means differ by.

    Weighted, each ratio counts alike, else each device.
    """
    means = [fmean(map(log, ratios)) for ratios in devices]
    counts = [len(ratios) if weighted else 1 for ratios in devices]
    shares = [count / sum(counts) for count in counts]
    middle = sum(share * mean for share, mean in zip(shares, means, strict=True))
    sigma = float(np.std(means, ddof=1))
    error = sigma * sqrt(sum(share**2 for share in shares))
    low, high = _bounds(middle, error, len(devices) - 1)
    return Mean(value=exp(middle), low=low, high=high, count=sum(counts))


def _bounds(middle: float, error: float, freedom: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    width = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return exp(middle - width), exp(middle + width)
