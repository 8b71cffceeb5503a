"""Random numbers: the generator's known answers, and distributions that are what they say."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from vkbench_shaders.inputs import philox

COUNT = 1 << 20
SEEDS = (0, 2, 0xDEADBEEF)

# key, counter and words of Random123's kat_vectors for philox4x32-10
KNOWN = (
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def state(key: int, counter: int = 0) -> philox.Words:
    return np.array([key, 0, *(counter >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96))], "u4")


@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_the_words_are_those_that_its_authors_published(
    key: tuple[int, ...], counter: tuple[int, ...], words: tuple[int, ...]
) -> None:
    (found,) = philox.blocks(np.array([*key, *counter], "u4"), 1)
    assert tuple(found) == words


@pytest.mark.parametrize("counter", [0, 2**32 - 3, 2**64 - 5, 2**96 - 1, 2**128 - 2])
def test_blocks_follow_one_another_across_the_counters_words(counter: int) -> None:
    begin = state(7, counter)
    singly = [philox.blocks(philox.advance_counter(begin, i), 1)[0] for i in range(9)]
    np.testing.assert_array_equal(philox.blocks(begin, 9), singly)


def test_uniform_numbers_leave_out_1() -> None:
    ends = philox.uniform(np.array([0, 255, 256, 0xFFFFFFFF], "u4"))
    assert ends.tolist() == [0, 0, 2.0**-24, 1 - 2.0**-24]


def test_normal_numbers_are_near_what_box_and_muller_say() -> None:
    bits = philox.blocks(state(3), COUNT // 4).astype(np.float64)
    radius = np.sqrt(-2 * np.log((bits[:, ::2] + 0.5) / 2**32))
    angle = 2 * np.pi * bits[:, 1::2] / 2**32
    quarter = np.floor(bits[:, 1::2] / 2**30)
    angle -= np.where(bits[:, 1::2] / 2**30 - quarter >= 0.5, np.pi / 2, 0)
    exact = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 2).reshape(bits.shape)
    found = philox.normal(philox.blocks(state(3), COUNT // 4))
    assert np.abs(found - exact).max() < 2e-5


def test_the_farthest_normal_numbers_are_finite() -> None:
    ends = np.array([0, 1, 0xFFFFFFFF, 0xFFFFFFFE, 1 << 30, 1 << 31], "u4")
    words = np.stack(np.meshgrid(ends, ends), axis=-1).reshape(-1, 4)
    numbers = np.abs(philox.normal(words))
    assert np.isfinite(numbers).all()
    assert numbers.min() == 0
    assert numbers.max() == pytest.approx(sqrt(2 * 33 * np.log(2)), rel=1e-5)


def normal_share(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([0.5 + 0.5 * erf(value / sqrt(2)) for value in x])


def uniform_share(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x


# numbers, the share below x, mean, variance, fourth moment
DISTRIBUTIONS = {
    "uniform": (philox.uniform, uniform_share, 0.5, 1 / 12, 1 / 80),
    "normal": (philox.normal, normal_share, 0.0, 1.0, 3.0),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_numbers_are_spread_as_they_should_be(name: str, seed: int) -> None:
    """Moments and correlations within 5 deviations of theirs; Kolmogorov's bound at 1 in 1000."""
    make, share, mean, variance, fourth = DISTRIBUTIONS[name]
    x = make(philox.blocks(state(seed), COUNT // 4)).astype(np.float64).reshape(-1)
    bound = 5 / sqrt(COUNT)
    assert abs(x.mean() - mean) < bound * sqrt(variance)
    centred = x - mean
    assert abs((centred**2).mean() - variance) < bound * sqrt(fourth - variance**2)
    assert abs((centred**3).mean()) < bound * sqrt((centred**6).mean())
    assert abs((centred**4).mean() - fourth) < bound * sqrt((centred**8).mean())
    for lag in (1, 2, 3, 4, 8, 64, 4096):
        assert abs((centred[lag:] * centred[:-lag]).mean()) < bound * variance
        squares = centred**2 - variance
        assert abs((squares[lag:] * squares[:-lag]).mean()) < bound * (fourth - variance**2)
    every = np.sort(x)[:: COUNT >> 14]
    steps = np.arange(len(every)) / len(every)
    assert np.abs(share(every) - steps).max() < 1.95 / sqrt(COUNT)
    assert len(np.unique(x)) > 0.9 * COUNT


def test_the_tails_of_normal_numbers_are_full() -> None:
    far = np.abs(philox.normal(philox.blocks(state(5), COUNT))) > 4
    wanted = 4 * COUNT * (1 - erf(4 / sqrt(2)))
    assert abs(np.count_nonzero(far) - wanted) < 5 * sqrt(wanted)
