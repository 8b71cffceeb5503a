"""How sure a difference between two sides is, by their order and by their noise."""

from __future__ import annotations

from math import inf

import pytest

from vkbench_detection.compare.evidence import RANKED, ratio_of
from vkbench_detection.compare.sides import Side
from vkbench_detection.statistics.discoveries import believe_which

SIGMA = 0.01


def side(count: int, seconds: float) -> Side:
    """Results that scatter by about one percent."""
    values = tuple(seconds * (1 + SIGMA * (n % 5 - 2) / 2) for n in range(count))
    return Side(
        value=seconds,
        values=values,
        low=min(values),
        high=max(values),
        samples=30 * count,
        job=1,
        flag="",
        series=1,
        sigma=SIGMA,
    )


@pytest.mark.parametrize("count", [1, RANKED - 1, RANKED, 12, 20])
def test_a_doubled_time_is_found_among_thousands_however_many_results_it_has(count: int) -> None:
    """No order of eight and eight results is rarer than one in 6,435."""
    found = ratio_of(side(count, 1e-3), side(count, 2e-3))
    assert believe_which([found.p, *[1.0] * 9_999])[0]
    assert found.low > 1.8


def test_the_order_of_many_results_shows_what_their_noise_would_hide() -> None:
    found = ratio_of(side(20, 1e-3), side(20, 1.011e-3))
    assert found.p < 1e-3
    assert found.low > 1


def test_a_result_whose_interval_begins_with_zero_is_compared() -> None:
    found = ratio_of(side(1, 1e-3)._replace(low=0.0), side(1, 2e-3))
    assert (found.ratio, found.high) == (2.0, inf)
    assert found.low > 1.8  # the old one may be faster than it seems, and hardly slower
    assert found.p < 1e-3


@pytest.mark.parametrize("count", [1, RANKED, 20])
def test_equal_sides_are_no_change(count: int) -> None:
    found = ratio_of(side(count, 1e-3), side(count, 1e-3))
    assert found.ratio == 1.0
    assert found.p > 0.9
