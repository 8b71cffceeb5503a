"""Changes of level in whole series, and the noise between them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vkbench_detection.statistics import segments, synthetic
from vkbench_detection.statistics.noise import NoiseKind, profile
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.synthetic import KINDS

NOISES = {noise.name: noise for noise in KINDS}
WANDERING = ("wave 1 %", "wave 2 %", "walk 2 %")
WHITE = [name for name in NOISES if name not in ("AR(1) 2 %", "day drift 2 %", *WANDERING)]


def drawn(name: str, streams: int, length: int, seed: int = 0) -> Floats:
    return (
        np.exp(synthetic.series(NOISES[name], np.random.default_rng(seed), streams, length)) / 1e3
    )


@pytest.mark.parametrize("name", WHITE)
def test_nothing_is_found_where_nothing_changes(name: str) -> None:
    found = [change for stream in drawn(name, 100, 120) for change in segments.find(stream)]
    assert len(found) <= 2


@pytest.mark.parametrize("name", ["AR(1) 2 %", "day drift 2 %"])
def test_little_is_found_where_results_only_remember_each_other(name: str) -> None:
    values = drawn(name, 100, 120)
    assert sum(len(segments.find(stream)) for stream in values) <= 12
    values[:, 70:] *= 1.05
    assert sum(bool(segments.find(stream)) for stream in values) >= 85


def test_a_step_stands_out_of_a_creep_far_below_it() -> None:
    """As a GPU's results are: alike to a few ten-thousandths, and each much like the one before."""
    creep = np.cumsum(np.random.default_rng(1).normal(0, 1e-4, 62))
    values = 2.75e-4 * np.exp(creep)
    assert segments.find(values.tolist()) == []
    values[50:] *= 1.1
    (change,) = segments.find(values.tolist())
    assert change.index == 50
    assert change.ratio.ratio == pytest.approx(1.1, rel=0.002)


@pytest.mark.parametrize("name", WANDERING)
def test_wander_alone_blames_no_kernel(name: str) -> None:
    found = [
        c for stream in drawn(name, 40, 200) for c in segments.find(stream, range(20, 200, 20))
    ]
    certain = [change for change in found if change.is_certain]
    assert sum(min(change.index % 20, -change.index % 20) <= 2 for change in certain) <= 1
    assert len(certain) <= 6


@pytest.mark.parametrize("factor", [1.2, 1 / 1.2])
@pytest.mark.parametrize("name", WANDERING)
def test_a_step_is_certain_in_wander_that_is_far_below_it(name: str, factor: float) -> None:
    values = drawn(name, 20, 150)
    values[:, 126:] *= factor
    for stream in values:
        [step] = [c for c in segments.find(stream) if abs(c.index - 126) <= 2]
        assert step.is_certain
        assert step.ratio.ratio == pytest.approx(factor, rel=0.04)


def test_a_step_within_the_wander_is_uncertain() -> None:
    values = drawn("wave 2 %", 20, 150)
    values[:, 126:] *= 1.05
    found = [c for stream in values for c in segments.find(stream, [126]) if c.index == 126]
    assert len(found) >= 14
    assert sum(change.is_certain for change in found) <= 10


def test_where_every_result_has_another_kernel_only_real_steps_are_found() -> None:
    values = drawn("gauss 1 %", 10, 150)
    assert [segments.find(stream, range(150)) for stream in values] == [[]] * 10
    values[:, 126:] *= 1.1
    found = [segments.find(stream, range(150)) for stream in values]
    assert [[abs(c.index - 126) <= 1 for c in changes] for changes in found] == [[True]] * 10


@pytest.mark.parametrize("factor", [1.05, 1 / 1.05])
@pytest.mark.parametrize("name", WHITE)
def test_a_change_is_found_where_it_is(name: str, factor: float) -> None:
    values = drawn(name, 50, 120)
    values[:, 70:] *= factor
    found = [segments.find(stream) for stream in values]
    near = [c for changes in found for c in changes if abs(c.index - 70) <= 3]
    assert len(near) >= 42  # spikes at the boundary move it
    assert np.median([c.ratio.ratio for c in near]) == pytest.approx(factor, rel=0.01)
    assert sum(c.ratio.low <= factor <= c.ratio.high for c in near) >= 0.8 * len(near)
    assert sum(map(len, found)) <= 52


def test_two_changes_are_told_apart_and_outliers_are_none() -> None:
    values = drawn("gauss 1 %", 1, 120)[0]
    values[40:] *= 1.1
    values[80:] /= 1.06
    values[[10, 55, 100]] *= 1.5
    first, second = segments.find(values)
    assert (first.index, second.index) == (40, 80)
    assert (first.ratio.ratio, second.ratio.ratio) == pytest.approx((1.1, 1 / 1.06), rel=0.01)
    assert max(first.ratio.p, second.ratio.p) < 1e-4


def test_slower_and_faster_are_mirror_images() -> None:
    values = drawn("gauss 2 %", 1, 150, seed=3)[0]
    values[60:] *= 1.08
    [one], [other] = segments.find(values), segments.find(1 / values)
    assert one.index == other.index
    assert one.ratio.ratio * other.ratio.ratio == pytest.approx(1)


def test_of_a_long_series_the_end_is_looked_at() -> None:
    values = drawn("gauss 0.5 %", 1, 500)[0]
    values[100:] *= 1.2
    values[450:] *= 1.05
    assert [change.index for change in segments.find(values)] == [450]


@pytest.mark.parametrize("count", [0, 1, 9])
def test_short_series_have_one_level(count: int) -> None:
    assert segments.find([1e-3] * count) == []


def test_equal_values_have_one_level() -> None:
    assert segments.find([1e-3] * 60) == []


def test_a_night_of_series_takes_seconds() -> None:
    values = drawn("gauss 1 %", 200, 120)
    values[::4, 80:] *= 1.05
    began = time.process_time()
    found = sum(bool(segments.find(stream)) for stream in values)
    assert time.process_time() - began < 5  # 0.3 s where this was written
    assert found >= 50


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gauss 0.5 %", NoiseKind.NORMAL),
        ("gauss 2 %", NoiseKind.NORMAL),
        ("spiky 2 %", NoiseKind.SKEWED),
        ("AR(1) 2 %", NoiseKind.DRIFTING),
        ("day drift 2 %", NoiseKind.DRIFTING),
    ],
)
def test_a_profile_tells_the_kind_of_noise(name: str, kind: NoiseKind) -> None:
    kinds = [profile(stream).kind for stream in drawn(name, 20, 200)]
    assert kinds.count(kind) >= 18


def test_two_modes_are_seen_where_noise_does_not_hide_them() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random(80) < 0.3, 1.035e-3, 1e-3) * np.exp(rng.normal(0, 0.004, 80))
    assert profile(values.tolist()).kind is NoiseKind.MODAL


@pytest.mark.parametrize(("name", "sigma"), [("gauss 1 %", 0.01), ("gauss 2 %", 0.02)])
def test_a_profile_tells_what_cannot_be_seen(name: str, sigma: float) -> None:
    found = profile(drawn(name, 1, 400)[0])
    assert found.sigma == pytest.approx(sigma, rel=0.15)
    assert found.mde == pytest.approx(3.5 * found.sigma * (2 / 12) ** 0.5)
    assert found.floor == pytest.approx(2 * found.mde)
    assert abs(found.ar1) < 0.2


def test_a_quiet_series_has_the_least_floor() -> None:
    found = profile([1e-3] * 20)
    assert (found.sigma, found.floor, found.ar1, found.kind) == (
        0.003,
        0.015,
        0.0,
        NoiseKind.NORMAL,
    )


def test_too_few_values_have_no_profile() -> None:
    with pytest.raises(ValueError, match="7 values"):
        profile([1e-3] * 7)


def test_scans_of_every_night_are_not_each_a_test_of_their_own() -> None:
    """A day that drifts looks like a new level in some night, if it is asked often enough."""
    found = set()
    for number, values in enumerate(drawn("day drift 2 %", 16, 100, seed=11)):
        for night in range(20, 101, 4):
            shifts = segments.find(values[:night].tolist())
            found |= {(number, each.index // 5) for each in shifts if each.is_certain}
    assert len(found) <= 2
