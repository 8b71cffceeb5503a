"""Means of ratios say how sure they are, by what their devices' runs and devices differ by."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from vkbench_detection.statistics.means import (
    DaySpread,
    day_spread,
    mean_of_days,
    mean_of_devices,
    mean_without,
)

ONE_LEVEL = np.zeros((40, 20), dtype=np.int64)


def nights(shared: float, own: float, seed: int = 1) -> np.ndarray:
    """Logarithms of forty runs of twenty series."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, own, ONE_LEVEL.shape) + rng.normal(0, shared, (len(ONE_LEVEL), 1))


def test_the_day_of_a_device_has_the_size_that_its_runs_share() -> None:
    found = day_spread(nights(0.02, 0.005), ONE_LEVEL)
    assert found
    assert found.sigma == pytest.approx(0.02, rel=0.3)
    assert found.freedom == pytest.approx(39)
    quiet = day_spread(nights(0.0, 0.005), ONE_LEVEL)
    assert quiet
    assert quiet.sigma == pytest.approx(0.005 / 20**0.5, rel=0.3)


def test_a_change_of_the_kernel_is_no_day() -> None:
    logs, levels = nights(0.001, 0.001), ONE_LEVEL.copy()
    logs[20:] += 0.5
    levels[20:] = 1
    found = day_spread(logs, levels)
    assert found
    assert found.sigma < 0.002
    assert found.freedom == pytest.approx(38)


def test_too_few_runs_have_no_size_of_a_day() -> None:
    logs = nights(0.02, 0.005)
    assert day_spread(logs[:2], ONE_LEVEL[:2]) is None
    assert day_spread(logs[:0], ONE_LEVEL[:0]) is None
    levels = np.broadcast_to(np.arange(40)[:, None], ONE_LEVEL.shape)  # each its own kernel
    assert day_spread(logs, np.array(levels)) is None


def test_runs_of_a_few_cases_are_no_measure_of_a_day() -> None:
    logs = nights(0.0, 0.01)
    logs[30:, 2:] = np.nan
    found, whole = day_spread(logs, ONE_LEVEL), day_spread(logs[:30], ONE_LEVEL[:30])
    assert found
    assert whole
    assert found.sigma == pytest.approx(whole.sigma, rel=0.05)


def test_results_in_a_row_that_resemble_each_other_are_worth_fewer() -> None:
    alone, wandering = (DaySpread(sigma=0.01, freedom=30, memory=m) for m in (0.0, 0.8))
    assert alone.variance({1: 1}) == wandering.variance({1: 1}) == pytest.approx(1e-4)
    assert alone.variance({12: 1}) == pytest.approx(1e-4 * 1.25 / 12)
    assert 4 < wandering.variance({12: 1}) / alone.variance({12: 1}) < 5  # as two or three
    assert DaySpread(sigma=0.01, freedom=30, memory=0.9).variance({2: 1}) < 1e-4
    rng = np.random.default_rng(3)
    walk = np.zeros(200)
    for night in range(1, 200):
        walk[night] = 0.8 * walk[night - 1] + rng.normal(0, 0.01)
    found = day_spread(walk[:, None] + np.zeros((200, 5)), np.zeros((200, 5), dtype=np.int64))
    assert found
    assert 0.6 < found.memory <= 0.9


def test_the_interval_of_one_device_is_as_wide_as_its_days() -> None:
    found = mean_of_days(log(1.1), 400, [(2 * 0.01**2, 1e9)])
    assert found.low
    assert found.high
    assert (found.low, found.high) == pytest.approx(
        (1.1 * exp(-1.96 * 0.01 * 2**0.5), 1.1 * exp(1.96 * 0.01 * 2**0.5)), rel=1e-4
    )
    vague = mean_of_days(log(1.1), 400, [(2 * 0.01**2, 2.0)])
    assert vague.low
    assert vague.low < found.low


def test_devices_differ_by_what_they_do_not_by_their_cases() -> None:
    """Two devices have one degree of freedom, however many cases they ran."""
    found = mean_of_devices([[1.0] * 400, [1.02] * 400])
    assert found.value == pytest.approx(1.02**0.5)
    assert found.low
    assert found.low == pytest.approx(1.02**0.5 * exp(-12.706 * log(1.02) / 2), rel=1e-4)
    assert found.count == 800
    alike = mean_of_devices([[1.0] * 300, [1.04]], weighted=False)
    assert (alike.value, alike.count) == (pytest.approx(1.04**0.5), 2)
    assert mean_of_devices([[1.0] * 300, [1.04]]).value == pytest.approx(1.04 ** (1 / 301))


def test_without_a_history_there_is_a_word_and_no_interval() -> None:
    found = mean_without(0.0, 3, "no interval: nothing known")
    assert (found.value, found.low, found.high, found.why) == (
        1.0, None, None, "no interval: nothing known",
    )  # fmt: skip
