"""How often intervals hold the truth: comparisons of results between which nothing changed.

Made-up devices, whose days move all their timings together, are compared with themselves. Means are
given by what production gives them, from the nights of the device that are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from vkbench_detection.statistics import synthetic
from vkbench_detection.statistics.discoveries import believe_which
from vkbench_detection.statistics.means import day_spread, mean_of_days, mean_of_devices
from vkbench_detection.statistics.noise import sigma_of
from vkbench_detection.statistics.ratios import FLOOR, Floats, Mean
from vkbench_detection.statistics.synthetic import Noise
from vkbench_detection.statistics.tails import Tails

CASES: Final = 40
NIGHTS: Final = 60
POOLED: Final = 12  # nights of a side that a driver or a bundle has
LEAST, MOST = 0.90, 0.98  # of intervals of 95 %
FALSE_TABLES: Final = 0.10  # share of tables in which some case seems slower or faster, at most


@dataclass(frozen=True, kw_only=True)
class Day:
    """How a device's day moves all its timings."""

    name: str
    sigma: float  # of a day, as a logarithm
    memory: float = 0.0  # correlation of a day with the next


DAYS: Final = (
    Day(name="no day", sigma=0.0),
    Day(name="day 1 %", sigma=0.01),
    Day(name="day 2 %, drifting", sigma=0.02, memory=0.7),
)
OWN: Final = Noise(name="gauss 0.5 %", sigma=0.005)
NOISES: Final = tuple(
    noise
    for noise in synthetic.KINDS
    if noise.name in ("gauss 1 %", "spiky 2 %", "day drift 2 %", "tails 2 %")
)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What share of comparisons without a change was right about it."""

    what: str
    noise: str
    comparisons: int
    share: float
    least: float
    most: float

    @property
    def is_met(self) -> bool:
        """Whether the share is as promised."""
        return self.least <= self.share <= self.most

    @property
    def target(self) -> str:
        """What is promised, for people."""
        return f"{self.least:.0%} to {self.most:.0%}"


def coverages(*, comparisons: int, seed: int) -> Iterator[Coverage]:
    """Each kind of interval and table, in each noise that makes it hard."""
    rng = np.random.default_rng((seed, 31))
    means: tuple[tuple[str, Callable[[Day, np.random.Generator], Mean | None]], ...] = (
        ("mean of a run", _run_mean),
        ("mean of twelve nights", _pooled_mean),
        ("mean of two devices", lambda day, rng: _fleet_mean(day, rng, 2)),
        ("mean of three devices", lambda day, rng: _fleet_mean(day, rng, 3)),
    )
    for what, mean in means:
        for day in DAYS:
            holds = [_holds(mean(day, rng)) for _ in range(comparisons)]
            yield _coverage(what, day.name, holds, LEAST, MOST)
    for noise in NOISES:
        tables = [not _table_has_changes(noise, rng) for _ in range(comparisons)]
        yield _coverage("tables without a change", noise.name, tables, 1 - FALSE_TABLES, 1.0)


def _coverage(what: str, noise: str, right: list[bool], least: float, most: float) -> Coverage:
    share = sum(right) / len(right)
    return Coverage(
        what=what, noise=noise, comparisons=len(right), share=share, least=least, most=most
    )


def _holds(mean: Mean | None) -> bool:
    return bool(mean and mean.low and mean.high and mean.low <= 1 <= mean.high)


def _nights(day: Day, rng: np.random.Generator, nights: int) -> Floats:
    """Logarithms of the cases' times: a row a night, a column a case."""
    whole = Noise(name="", sigma=day.sigma, memory=day.memory)
    shared = synthetic.series(whole, rng, 1, nights) if day.sigma else np.zeros((1, nights))
    return np.asarray((synthetic.series(OWN, rng, CASES, nights) + shared).T)


def _run_mean(day: Day, rng: np.random.Generator) -> Mean | None:
    """Two nights of a device, any of its nights; the others are its history."""
    old, new = rng.permutation(NIGHTS)[:2].tolist()
    return _mean(_nights(day, rng, NIGHTS), [old], [new])


def _pooled_mean(day: Day, rng: np.random.Generator) -> Mean | None:
    """Twelve nights in a row and twelve later ones, anywhere in its history."""
    first = int(rng.integers(NIGHTS - 2 * POOLED + 1))
    later = int(rng.integers(first + POOLED, NIGHTS - POOLED + 1))
    old, new = (range(begin, begin + POOLED) for begin in (first, later))
    return _mean(_nights(day, rng, NIGHTS), old, new)


def _mean(logs: Floats, old: Sequence[int], new: Sequence[int]) -> Mean | None:
    sides = [np.median(logs[list(rows)], axis=0) for rows in (old, new)]
    known = np.delete(logs, [*old, *new], axis=0) if len(old) == 1 else logs
    spread = day_spread(known, np.zeros(known.shape, dtype=np.int64))
    if spread is None:
        return None
    variance = spread.variance({len(old): 1}) + spread.variance({len(new): 1})
    middle = float((sides[1] - sides[0]).mean())
    return mean_of_days(middle, logs.shape[1], [(variance, spread.freedom)])


def _fleet_mean(day: Day, rng: np.random.Generator, devices: int) -> Mean:
    """Two nights of each device, with unlike numbers of cases."""
    ratios = []
    for number in range(devices):
        old, new = (_nights(day, rng, 1)[0] for _ in range(2))
        ratios.append(np.exp(new - old)[: CASES // (number + 1)].tolist())
    return mean_of_devices(ratios)


def _table_has_changes(noise: Noise, rng: np.random.Generator) -> bool:
    """Whether any case of two nights seems slower or faster."""
    logs = synthetic.series(noise, rng, CASES, NIGHTS)
    known = logs[:, :-2]
    sigmas = np.array([sigma_of(series) for series in known])[:, None] * sqrt(2)
    half = known.shape[1] // 2
    tails = Tails.of(((known[:, half:] - known[:, :-half]) / sigmas).ravel().tolist())
    differences = logs[:, -1] - logs[:, -2]
    p_values = [
        _p(sigmas_apart, tails) if abs(apart) >= np.log1p(FLOOR) else 1.0
        for apart, sigmas_apart in zip(
            differences.tolist(), (np.abs(differences) / sigmas[:, 0]).tolist(), strict=True
        )
    ]
    return any(believe_which(p_values))


def _p(sigmas: float, tails: Tails) -> float:
    from scipy.special import ndtr

    return min(1.0, max(2 * float(ndtr(-sigmas)), tails.p(sigmas)))
