"""Median intervals on data whose answer is known."""

from __future__ import annotations

import random
import time
from math import comb
from statistics import median

import pytest

from vkbench_worker.timing.statistics import deviation, half_width, interval


def coverage(count: int, rank: int) -> float:
    return 1 - 2 * sum(comb(count, k) for k in range(rank + 1)) / 2**count


@pytest.mark.parametrize(
    ("count", "rank"),
    [
        (1, 0),
        (2, 0),
        (5, 0),
        (6, 0),
        (9, 1),
        (10, 1),
        (20, 5),
        (25, 7),
        (50, 17),
        (100, 39),
        (1000, 468),
    ],
)
def test_the_interval_is_the_textbook_pair_of_order_statistics(count: int, rank: int) -> None:
    samples = [float(value) for value in range(count)]
    random.Random(count).shuffle(samples)
    found = interval(samples)
    assert (found.low, found.high) == (rank, count - 1 - rank)
    assert found.confidence == pytest.approx(coverage(count, rank))
    assert found.confidence >= 0.95 or count < 6
    assert coverage(count, rank + 1) < 0.95


def test_the_interval_of_many_samples_takes_no_time() -> None:
    samples = [float(value) for value in range(10_000)]
    began = time.thread_time()
    found = interval(samples)
    assert time.thread_time() - began < 0.5  # a device waits for it
    assert (found.low, found.high) == (4901, 5098)


def test_five_samples_do_not_reach_the_confidence_and_say_so() -> None:
    assert interval([1, 2, 3, 4, 5]).confidence == 0.9375


def test_intervals_hold_the_true_median_as_often_as_they_say() -> None:
    dice = random.Random(7)
    draws = [[dice.expovariate(1.0) for _ in range(25)] for _ in range(2000)]
    true = 0.6931471805599453
    held = sum(found.low <= true <= found.high for found in map(interval, draws)) / 2000
    assert held == pytest.approx(interval(draws[0]).confidence, abs=0.015)


def test_deviation_ignores_one_wild_sample() -> None:
    assert deviation([1.0, 2.0, 3.0, 4.0, 1000.0]) == 1.0


def test_half_width_is_relative_to_the_median() -> None:
    samples = [100.0 + value for value in (-2, -1, 0, 1, 2, 3)]
    assert half_width(samples) == pytest.approx(5 / 2 / median(samples))
    assert half_width([0.0] * 9) == float("inf")
