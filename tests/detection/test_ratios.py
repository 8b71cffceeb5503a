"""Ratios: intervals that hold what they say, p that is scipy's."""

from __future__ import annotations

from math import inf, isclose
from typing import Literal

import numpy as np
import pytest

from vkbench_detection.statistics import ratios
from vkbench_detection.statistics.discoveries import believe_which
from vkbench_detection.statistics.ratios import Estimate, geometric_mean, of_estimates, of_values


def times(rng: np.random.Generator, count: int, factor: float = 1.0) -> list[float]:
    return [float(v) for v in factor * np.exp(rng.normal(-7, 0.02, count))]


@pytest.mark.parametrize(("old", "new"), [(8, 8), (5, 14), (16, 16), (20, 12), (60, 60)])
def test_p_is_scipys(old: int, new: int) -> None:
    from scipy.stats import mannwhitneyu  # over a second, in each process that collects tests

    rng = np.random.default_rng(old)
    one, other = times(rng, old), times(rng, new, 1.01)
    method: Literal["exact", "asymptotic"] = "exact" if old * new <= ratios.EXACT else "asymptotic"
    wanted = mannwhitneyu(other, one, method=method).pvalue
    assert of_values(one, other).p == pytest.approx(min(1.0, float(wanted)))


@pytest.mark.parametrize("count", [4, 8, 12, 30])
def test_the_interval_holds_the_truth_as_often_as_it_says(count: int) -> None:
    rng = np.random.default_rng(count)
    found = [of_values(times(rng, count), times(rng, count, 1.05)) for _ in range(600)]
    held = sum(ratio.low <= 1.05 <= ratio.high for ratio in found) / len(found)
    assert 0.93 <= held <= 0.985


def test_an_interval_leaves_one_out_where_the_test_is_significant() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        ratio = of_values(times(rng, 8), times(rng, 8, 1.02))
        assert (ratio.p <= 0.05) == (not ratio.low <= 1 <= ratio.high)


def test_two_values_a_side_have_no_interval() -> None:
    ratio = of_values([1.0, 1.1], [2.0, 2.1])
    assert (ratio.low, ratio.high) == (0.0, inf)
    assert not ratio.is_significant()


def test_wild_values_do_not_move_a_ratio() -> None:
    rng = np.random.default_rng(2)
    old, new = times(rng, 12), times(rng, 12, 1.1)
    assert of_values(old, [*new[:-1], new[-1] * 50]).ratio == pytest.approx(1.1, rel=0.03)


def test_many_samples_are_compared_in_little_memory() -> None:
    rng = np.random.default_rng(3)
    ratio = of_values(times(rng, 40_000), times(rng, 30_000, 1.03))
    assert ratio.ratio == pytest.approx(1.03, rel=0.003)
    assert ratio.is_significant()


def test_values_that_scatter_wider_than_they_look_say_less() -> None:
    rng = np.random.default_rng(6)
    ratio = of_values(times(rng, 20), times(rng, 20, 1.02))
    wider = ratio.stretch(2)
    assert wider.ratio == ratio.ratio
    assert wider.p > ratio.p
    assert np.log(wider.high / wider.low) == pytest.approx(2 * np.log(ratio.high / ratio.low))
    assert ratio.stretch(1) == ratio
    assert ratio.stretch(1 + 1e-9).p == pytest.approx(ratio.p)


def test_small_changes_are_not_significant_however_certain() -> None:
    rng = np.random.default_rng(4)
    ratio = of_values(times(rng, 400), times(rng, 400, 1.008))
    assert ratio.p < 0.001
    assert not ratio.is_significant()
    assert ratio.is_significant(floor=0.001)


def test_stored_medians_are_compared_by_their_intervals() -> None:
    old = Estimate(value=1.0, low=0.99, high=1.01)
    apart = of_estimates(old, Estimate(value=1.05, low=1.04, high=1.06))
    assert (apart.ratio, apart.is_significant()) == (1.05, True)
    assert apart.low == pytest.approx(1.0357, abs=1e-3)
    assert apart.high == pytest.approx(1.0645, abs=1e-3)
    near = of_estimates(old, Estimate(value=1.012, low=1.0, high=1.024))
    assert near.low < 1 < near.high
    assert not near.is_significant()


def test_stored_medians_mirror() -> None:
    old = Estimate(value=1.0, low=0.98, high=1.01)
    new = Estimate(value=1.05, low=1.02, high=1.06)
    one, other = of_estimates(old, new), of_estimates(new, old)
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
    assert other.p == pytest.approx(one.p)


def test_a_bound_of_zero_is_no_bound() -> None:
    vague, sharp = Estimate(value=2.0, low=0.0, high=3.0), Estimate(value=1.0, low=0.99, high=1.01)
    slower, faster = of_estimates(sharp, vague), of_estimates(vague, sharp)
    assert (slower.ratio, slower.low, slower.p) == (2.0, 0.0, 1.0)
    assert slower.high == pytest.approx(3.0, rel=0.01)
    assert (faster.ratio, faster.high, faster.p) == (0.5, inf, 1.0)


@pytest.mark.parametrize(("new", "p"), [(1.0, 1.0), (1.5, 0.0)])
def test_medians_without_spread_differ_or_do_not(new: float, p: float) -> None:
    still = Estimate(value=1.0, low=1.0, high=1.0)
    assert of_estimates(still, Estimate(value=new, low=new, high=new)).p == p


def test_the_mean_of_ratios_has_an_interval() -> None:
    drawn = np.exp(np.random.default_rng(5).normal(0.05, 0.1, 400))
    mean = geometric_mean([float(value) for value in drawn])
    assert mean
    assert mean.low is not None
    assert mean.high is not None
    assert isclose(mean.value, np.exp(np.log(drawn).mean()))
    assert mean.low < mean.value < mean.high
    assert mean.high / mean.low == pytest.approx(np.exp(2 * 1.96 * 0.1 / 20), rel=0.01)
    assert geometric_mean([float(value) for value in drawn]) == mean


def test_few_ratios_have_a_mean_all_the_same() -> None:
    assert geometric_mean([]) is None
    one, equal = geometric_mean([1.2]), geometric_mean([1.2, 1.2])
    assert one
    assert (one.value, one.low, one.high, one.count) == (pytest.approx(1.2), None, None, 1)
    assert equal
    assert equal.low == equal.high == pytest.approx(1.2)


def test_of_many_tests_the_certain_are_believed() -> None:
    assert believe_which([]) == []
    assert believe_which([0.001, 0.04, 0.9]) == [True, False, False]  # 0.04 alone would be
    assert believe_which([0.04]) == [True]


def test_the_mean_of_very_many_ratios_has_the_interval_of_a_bootstrap() -> None:
    values = np.exp(np.random.default_rng(7).standard_t(3, 1000) * 0.02 + 0.01)
    quick = geometric_mean(list(values))
    low, high = ratios._bootstrap(np.log(values), np.ones(1000), 0)
    assert quick
    assert quick.low == pytest.approx(low, abs=5e-4)
    assert quick.high == pytest.approx(high, abs=5e-4)


@pytest.mark.parametrize("cases", [30, 1500])
def test_the_metrics_of_a_case_are_no_evidence_for_each_other(cases: int) -> None:
    """Hot and cold times of one kernel move together: twice as many ratios say no more."""
    hot = np.exp(np.random.default_rng(8).normal(0.01, 0.03, cases)).tolist()
    once, twice = geometric_mean(hot), geometric_mean(hot * 2, alike=list(range(cases)) * 2)
    assert once
    assert twice
    assert (twice.value, twice.count) == (pytest.approx(once.value), 2 * cases)
    assert (twice.low, twice.high) == pytest.approx((once.low, once.high))


def test_ratios_of_a_single_case_have_no_interval() -> None:
    found = geometric_mean([1.1, 1.2], alike=["copy", "copy"])
    assert found
    assert (found.low, found.high, found.count) == (None, None, 2)
