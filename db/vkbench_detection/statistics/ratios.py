"""How far apart two sets of times are: a ratio with its interval and how likely chance makes it.

A ratio is new over old, above 1 slower. From values it is the median of all quotients of a new and
an old value (Hodges and Lehmann), whose interval is the Mann-Whitney test turned round: it leaves 1
out exactly where the test is significant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, exp, floor, hypot, inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
FLOOR = 0.01  # a run's samples know nothing of other runs: the same kernels twice differed by 0.5 %
TOO_WIDE = 0.05  # half an interval, as a share of its median: such a side yields no ratio
TABLED = 16  # values a side up to which the table of U is kept: 17 KB for the largest
EXACT = 48 * 48  # quotients up to which the test is exact
MOST = 500  # values a side that are looked at: of more, as many quantiles
LEAST_P = 1e-300  # a smaller one has no quantile
RESAMPLES = 2000
NORMAL_FROM = 1000  # values: each page of a comparison would wait 0.1 s for its bootstrap
RESAMPLES_AT_ONCE = 100  # 3000 ratios take 2.4 MB and not 48

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A median as it is stored: with its interval, without its samples."""

    value: float
    low: float
    high: float

    @property
    def is_too_noisy(self) -> bool:
        """Whether the median is known too badly to be one side of a ratio."""
        return is_too_noisy(self.value, self.low, self.high)


def is_too_noisy(value: float, low: float, high: float) -> bool:
    """Whether a median is known too badly: by half its interval, which tables show behind a ±."""
    return (high - low) / 2 / value > TOO_WIDE


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The ratio of new over old times, and its interval."""

    ratio: float
    low: float
    high: float
    p: float  # two-sided

    def is_significant(self, *, alpha: float = 1 - CONFIDENCE, floor: float = FLOOR) -> bool:
        """Whether chance is unlikely and the change is worth a word."""
        return self.p <= alpha and abs(log(self.ratio)) >= log(1 + floor)

    def stretch(self, factor: float) -> Ratio:
        """The ratio from values that scatter wider than they look, by a factor."""
        if factor == 1:
            return self
        sigmas = -NormalDist().inv_cdf(max(self.p, LEAST_P) / 2) / factor
        return Ratio(
            ratio=self.ratio,
            low=self.ratio * (self.low / self.ratio) ** factor,
            high=self.ratio * (self.high / self.ratio) ** factor,
            p=erfc(sigmas / sqrt(2)),
        )


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A geometric mean of ratios; without an interval where nothing says how sure it is."""

    value: float
    low: float | None
    high: float | None
    count: int
    why: str = ""  # it has no interval


@dataclass(frozen=True, kw_only=True)
class Shift:
    """How two sets of logarithms lie to each other."""

    shift: float  # median of all differences
    low: float
    high: float
    above: float  # one-sided p: chance alone would put new so far above old
    below: float

    def as_ratio(self) -> Ratio:
        """The difference of logarithms as a ratio of times."""
        p = min(1.0, 2 * min(self.above, self.below))
        return Ratio(ratio=exp(self.shift), low=exp(self.low), high=exp(self.high), p=p)


def of_values(old: Sequence[float], new: Sequence[float]) -> Ratio:
    """The ratio of two sets of times: medians of jobs, or samples of one job each.

    Samples of one job are more alike than jobs are, so that p speaks of these two jobs alone.
    """
    return shift(_logs(old), _logs(new)).as_ratio()


def of_estimates(old: Estimate, new: Estimate) -> Ratio:
    """The ratio of two medians that are known with their intervals alone, taken to be of 95 %.

    Each side keeps its own distance to its bound (Donner and Zou's MOVER, on logarithms). A bound
    of zero is no bound: a clock that counts few ticks, or a file of another program, may have one.
    """
    middle = log(new.value / old.value)
    low = middle - hypot(below(new), log(old.high / old.value))
    high = middle + hypot(log(new.high / new.value), below(old))
    width = middle - low if middle > 0 else high - middle  # the side that 1 is on
    return Ratio(ratio=exp(middle), low=exp(low), high=exp(high), p=_p(middle, width))


def below(estimate: Estimate) -> float:
    """How far the lower bound is below the median, as a logarithm."""
    return log(estimate.value / estimate.low) if estimate.low > 0 else inf


def geometric_mean(
    ratios: Sequence[float], *, alike: Sequence[object] = (), seed: int = 0
) -> Mean | None:
    """The mean of ratios with its bootstrap interval; None of none.

    `alike` says of each ratio what it shares with others, such as the case that it is of: those
    move together, and are drawn together. There is no interval where all share one thing.
    """
    if not ratios:
        return None
    logs = _logs(ratios)
    sums, counts = _together(logs, alike or range(len(logs)))
    low, high = _bounds(sums, counts, seed) if len(sums) > 1 else (None, None)
    return Mean(value=exp(float(logs.mean())), low=low, high=high, count=len(logs))


def _together(logs: Floats, alike: Sequence[object]) -> tuple[Floats, Floats]:
    """The sums of what is alike, and how many each is of."""
    places: dict[object, int] = {}
    groups = [places.setdefault(value, len(places)) for value in alike]
    sums, counts = np.bincount(groups, logs), np.bincount(groups)
    return np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)


def _bounds(sums: Floats, counts: Floats, seed: int) -> tuple[float | None, float | None]:
    """The interval of a mean. Of very many values it is normal, and 2,000 resamples add noise."""
    count = len(sums)
    if count < NORMAL_FROM:
        return _bootstrap(sums, counts, seed)
    middle = float(_mean_of(sums, counts))
    rest = sums - middle * counts
    error = sqrt(float(rest @ rest) * count / (count - 1)) / float(counts.sum())
    width = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
    return exp(middle - width), exp(middle + width)


def _mean_of(sums: Floats, counts: Floats, axis: int = -1) -> Floats:
    return np.asarray(sums.sum(axis=axis) / counts.sum(axis=axis))


def shift(old: Floats, new: Floats) -> Shift:
    """Compare two sets of logarithms, by ranks: a few wild values do not move it."""
    old, new = _thin_values(old), _thin_values(new)
    differences = np.sort((new[:, None] - old).ravel())
    above, below = _tails(old, new, differences)
    skipped = _count_skipped(len(old), len(new))
    return Shift(
        shift=float(np.median(differences)),
        low=float(differences[skipped]) if skipped >= 0 else -np.inf,
        high=float(differences[-1 - skipped]) if skipped >= 0 else np.inf,
        above=above,
        below=below,
    )


def _tails(old: Floats, new: Floats, differences: Floats) -> tuple[float, float]:
    """One-sided p of new above old, and below."""
    n, m = len(new), len(old)
    if max(n, m) <= TABLED:
        greater = int(np.count_nonzero(differences > 0))  # ties count for neither side
        less = int(np.count_nonzero(differences < 0))
        table = _table(n, m)
        return table[greater], table[less]
    from scipy.stats import mannwhitneyu

    method: Literal["exact", "auto"] = "exact" if n * m <= EXACT else "auto"
    is_above = float(np.median(differences)) >= 0
    side: Literal["greater", "less"] = "greater" if is_above else "less"
    p = float(mannwhitneyu(new, old, alternative=side, method=method).pvalue)
    return (p, 1 - p) if is_above else (1 - p, p)  # the other side is never significant


@lru_cache(maxsize=512)
def _table(n: int, m: int) -> tuple[float, ...]:
    """P(U >= u) for every u, from scipy in one call; asking it each time took 0.4 ms."""
    from scipy.stats import mannwhitneyu

    u = np.arange(n * m + 1)[:, None]
    beaten = u // n + (np.arange(n) < u % n)  # how many of the old ones each new one is above
    old = np.broadcast_to(np.arange(m) + 0.5, (len(u), m))
    test = mannwhitneyu(beaten, old, alternative="greater", method="exact", axis=1)
    return tuple(np.asarray(test.pvalue, dtype=np.float64).tolist())


@lru_cache(maxsize=4096)
def _count_skipped(n: int, m: int) -> int:
    """How many differences lie outside the interval on each side; -1 where even all are too few."""
    half = (1 - CONFIDENCE) / 2
    if max(n, m) <= TABLED:
        return sum(p <= half for p in _table(n, m)) - 1
    spread = sqrt(n * m * (n + m + 1) / 12)
    return max(-1, floor(n * m / 2 - NormalDist().inv_cdf(1 - half) * spread))


def _thin_values(values: Floats) -> Floats:
    return values if len(values) <= MOST else np.quantile(values, np.linspace(0, 1, MOST))


def _bootstrap(sums: Floats, counts: Floats, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    # percentiles: BCa has no answer where all values are equal
    result = bootstrap(
        (sums, counts),
        _mean_of,
        paired=True,
        n_resamples=RESAMPLES,
        batch=RESAMPLES_AT_ONCE,
        method="percentile",
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return exp(float(result.low)), exp(float(result.high))


def _p(middle: float, width: float) -> float:
    """Two-sided, from how many half widths of an interval 1 is away."""
    if width <= 0 or not isfinite(width):
        return float(middle == 0 or not isfinite(width))
    sigmas = abs(middle) / width * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return erfc(sigmas / sqrt(2))


def _logs(values: Sequence[float]) -> Floats:
    return np.log(np.asarray(values, dtype=np.float64))
