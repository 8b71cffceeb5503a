"""Synthetic noise is what it says, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_detection.statistics import synthetic
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.synthetic import KINDS, Noise

NOISES = {noise.name: noise for noise in KINDS}


def drawn(name: str, seed: int = 0) -> Floats:
    return synthetic.series(NOISES[name], np.random.default_rng(seed), 200, 200)


def correlation(values: Floats) -> float:
    return float(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1])


@pytest.mark.parametrize(
    "noise", [noise for noise in KINDS if not noise.tails], ids=lambda noise: noise.name
)
def test_noise_is_as_wide_as_its_name_and_repeats(noise: Noise) -> None:
    values = drawn(noise.name)
    sigma = float(noise.name.split()[-2]) / 100
    calm = values[np.abs(values) < 4 * sigma] if noise.spikes else values
    assert calm.std() == pytest.approx(sigma, rel=0.05)
    assert np.array_equal(values, drawn(noise.name))
    assert not np.array_equal(values, drawn(noise.name, seed=1))


@pytest.mark.parametrize(
    ("name", "wanted"), [("gauss 2 %", 0.0), ("AR(1) 2 %", 0.5), ("day drift 2 %", 0.7 * 0.64)]
)
def test_noise_remembers_what_it_should(name: str, wanted: float) -> None:
    assert correlation(drawn(name)) == pytest.approx(wanted, abs=0.02)


def test_spikes_are_few_and_slow() -> None:
    far = np.abs(drawn("spiky 2 %")) > 0.1
    assert 0.02 < far.mean() < 0.03
    assert (drawn("spiky 2 %")[far] > 0).all()


def test_arms_share_the_day() -> None:
    rng = np.random.default_rng(0)
    found = [synthetic.pairs(NOISES["day drift 2 %"], rng, 12) for _ in range(500)]
    assert np.std([old for old, _ in found]) == pytest.approx(0.012, rel=0.05)
    assert np.mean([new for _, new in found]) == pytest.approx(0, abs=0.0005)


def test_jobs_of_a_confirmation_remember_each_other_in_the_order_they_ran() -> None:
    rng = np.random.default_rng(0)
    found = [synthetic.pairs(NOISES["AR(1) 2 %"], rng, 2) for _ in range(4000)]
    first, second = (np.array([f[arm][0] for f in found]) for arm in (0, 1))
    last = np.array([f[0][1] for f in found])  # old new new old: three jobs after the first
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.5, abs=0.05)
    assert np.corrcoef(first, last)[0, 1] == pytest.approx(0.125, abs=0.05)


def test_heavy_tails_are_heavy() -> None:
    """Student's t of 3 degrees of freedom: narrow in the middle, and far out now and then."""
    values = drawn("tails 2 %")
    assert np.median(np.abs(values)) == pytest.approx(0.7649 * 0.02 / np.sqrt(3), rel=0.03)
    assert 0.004 < (np.abs(values) > 4 * 0.02).mean() < 0.008  # 6e-5 of normal noise


def test_a_wave_comes_and_goes() -> None:
    waves = drawn("wave 1 %")
    assert correlation(waves) == pytest.approx(0.96 * np.cos(2 * np.pi / 44), abs=0.02)
    apart = np.corrcoef(waves[:, :-22].ravel(), waves[:, 22:].ravel())[0, 1]
    assert apart == pytest.approx(-0.96, abs=0.02)


def test_arms_share_the_wave() -> None:
    rng = np.random.default_rng(0)
    found = [synthetic.pairs(NOISES["wave 2 %"], rng, 12) for _ in range(500)]
    assert np.std([old for old, _ in found]) == pytest.approx(0.005, rel=0.05)
