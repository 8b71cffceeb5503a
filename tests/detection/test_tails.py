"""How rare a difference is follows from what a device's results differed by before."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from vkbench_detection.statistics.tails import LEAST, Tails


def test_within_what_is_known_it_is_counted() -> None:
    tails = Tails.of([n / 100 for n in range(-100, 100)])
    assert tails.p(0.0) == 1.0
    assert tails.p(0.5) == pytest.approx(0.5, abs=0.01)
    assert tails.p(0.9) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("sigmas", [2.0, 3.0, 4.0])
def test_normal_noise_is_about_as_rare_as_it_is(sigmas: float) -> None:
    tails = Tails.of(np.random.default_rng(1).normal(size=2000).tolist())
    p = 2 * NormalDist().cdf(-sigmas)
    assert p / 1.3 < tails.p(sigmas) < 10 * p + 1e-3


def test_noise_with_long_tails_is_not_rare() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=2000) + (rng.random(2000) < 0.03) * rng.uniform(8, 30, 2000)
    tails = Tails.of(values.tolist())
    assert tails.p(10) > 0.02
    assert tails.p(69) < 1e-3  # twice the time, where one result in thirty is a fifth slower


def test_it_never_rises() -> None:
    tails = Tails.of(np.random.default_rng(2).standard_t(3, size=400).tolist())
    found = [tails.p(sigmas) for sigmas in np.linspace(0.1, 60, 400)]
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < 1e-3


def test_too_few_differences_are_no_tail() -> None:
    """Student's t with few degrees of freedom takes its place."""
    few, none = Tails.of([0.0] * (LEAST - 1)), Tails()
    assert few == none
    assert 2 * NormalDist().cdf(-4) < none.p(4.0) < 0.02
    assert none.p(100.0) < 1e-6


def test_results_that_never_differ_leave_nothing_to_chance() -> None:
    """Ticks of a timer: all differences are zero."""
    assert Tails.of([0.0] * 60).p(1.0) == pytest.approx(1 / 61)
