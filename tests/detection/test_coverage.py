"""Intervals hold what is true about as often as they say, where a device's day moves all."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_detection.statistics.coverage import Coverage, coverages
from vkbench_detection.statistics.ratios import geometric_mean

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> list[Coverage]:
    return list(coverages(comparisons=200, seed=0))


def test_the_targets_are_met(found: list[Coverage]) -> None:
    assert [(each.what, each.noise, each.share) for each in found if not each.is_met] == []
    assert {each.what for each in found} == {
        "mean of a run",
        "mean of twelve nights",
        "mean of two devices",
        "mean of three devices",
        "tables without a change",
    }


def test_a_share_outside_is_no_success() -> None:
    def of(share: float) -> Coverage:
        return Coverage(what="", noise="", comparisons=1, share=share, least=0.9, most=0.98)

    assert [of(share).is_met for share in (0.89, 0.9, 0.98, 0.99)] == [False, True, True, False]
    assert of(0.5).target == "90% to 98%"


def test_the_scatter_of_cases_knows_nothing_of_days() -> None:
    """What the other tests would see if means were taken as sure as their cases are alike."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(100):
        days = rng.normal(0, 0.01 * 2**0.5) + rng.normal(0, 0.005 * 2**0.5, 40)
        mean = geometric_mean(np.exp(days).tolist())
        held += bool(mean and mean.low and mean.high and mean.low <= 1 <= mean.high)
    assert held < 35
