"""What is measured now is plain beside a series, or within what the series does by itself."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest

from vkbench_detection.statistics import synthetic
from vkbench_detection.statistics.plainness import is_plain
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.synthetic import KINDS

NOISES = {noise.name: noise for noise in KINDS}
MOVE = 45  # results before a change
NONE = np.empty(0)


def measured_again(
    name: str, change: float, later: int, seed: int, series: int = 200
) -> list[bool]:
    """Of series that changed at MOVE, or did not, whether pairs measured later find it plain."""
    noise, rng = NOISES[name], np.random.default_rng(seed)
    alone = replace(noise, sigma=0.0, spikes=0.0, modes=0.0, memory=0.0, tails=0)
    own = replace(noise, drift=0.0, wave=0.0)
    days = synthetic.series(alone, rng, series, MOVE + later)
    results = days + synthetic.series(own, rng, series, MOVE + later)
    results[:, MOVE:] += change
    fresh = synthetic.series(own, rng, series, 24) + days[:, -1:] + change
    return [
        is_plain(now, each[:MOVE], NONE, each[MOVE:])
        for now, each in zip(fresh, results, strict=True)
    ]


@pytest.mark.parametrize("name", ["day drift 2 %", "wave 1 %", "wave 2 %", "walk 2 %"])
@pytest.mark.parametrize("later", [1, 6])
def test_slow_noise_is_plain_in_few_of_all_series(name: str, later: int) -> None:
    """Three sigma of single results would be exceeded in dozens of 200 series that walk."""
    assert sum(measured_again(name, 0.0, later, seed=3)) <= 2


@pytest.mark.parametrize(
    ("name", "change", "share"),
    [("gauss 1 %", 0.05, 0.9), ("gauss 2 %", 0.1, 0.85), ("walk 2 %", 0.1, 0.85)],
)
def test_a_large_change_is_plain(name: str, change: float, share: float) -> None:
    found = measured_again(name, log(1 + change), 4, seed=5)
    assert sum(found) >= share * len(found)


def level(rng: np.random.Generator, count: int, ratio: float = 1.0) -> Floats:
    return rng.normal(log(ratio), 0.01, count)


def test_few_results_of_a_level_say_less() -> None:
    """With earlier levels the scatter is known, but where one result lies is not."""
    rng = np.random.default_rng(2)
    earlier, now = level(rng, 40), level(rng, 24, 1.04)
    assert is_plain(now, level(rng, 30), earlier, NONE)
    assert not is_plain(now, level(rng, 1) * 0, earlier, NONE)
    assert is_plain(level(rng, 24, 1.08), level(rng, 1), earlier, NONE)
