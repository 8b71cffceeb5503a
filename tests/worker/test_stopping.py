"""Bounds of sampling, one by one and together."""

from __future__ import annotations

import random

from vkbench_worker.timing.statistics import half_width
from vkbench_worker.timing.stopping import NoiseBound, TimeLimit, first_reached


def test_the_noise_bound_wants_ten_samples_and_a_narrow_interval() -> None:
    assert not NoiseBound(0.01).is_reached([1.0] * 9, 1.0)
    assert NoiseBound(0.01).is_reached([1.0] * 10, 1.0)
    assert not NoiseBound(0.01).is_reached([1.0, 1.1] * 10, 1.0)


def test_noisy_samples_end_when_their_median_is_known() -> None:
    dice, bound = random.Random(3), NoiseBound(0.005)
    samples: list[float] = []
    while not bound.is_reached(samples, 1.0):
        samples.append(1.0 + dice.gauss(0, 0.02))
    assert 30 < len(samples) < 300
    assert half_width(samples) <= 0.005


def test_the_time_limit_looks_at_the_clock_alone() -> None:
    assert not TimeLimit(1.0).is_reached([], 0.99)
    assert TimeLimit(1.0).is_reached([], 1.0)


def test_the_first_bound_that_is_reached_is_named() -> None:
    bounds = (NoiseBound(0.01), TimeLimit(1.0))
    assert first_reached(bounds, [1.0, 2.0] * 4, 0.5) == ""
    assert first_reached(bounds, [1.0, 2.0] * 4, 1.5) == "time"
    assert first_reached(bounds, [1.0] * 20, 1.5) == "noise"
