"""Quantisers lose less than plain rounding does, and say in one line what they do not take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vkbench.errors import UsageError
from vkbench_shaders.formats import QUANTISED
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import codecs
from vkbench_shaders.quantisers.quantiser import QUANTISERS, quantise_weights
from vkbench_shaders.quantisers.quants import dequantise

# of ggml's own quantisers on normal numbers, given uniform importance: squared error over square
GGML = {
    "q2_K": 7.15e-2,
    "q3_K": 2.07e-2,
    "q4_K": 5.10e-3,
    "q5_K": 1.26e-3,
    "q6_K": 2.99e-4,
    "iq4_nl": 5.62e-3,
    "iq4_xs": 5.72e-3,
    "nvfp4": 9.0e-3,
    "iq1_s": 2.39e-1,
    "iq1_m": 2.07e-1,
    "iq2_xxs": 1.18e-1,
    "iq2_xs": 9.0e-2,
    "iq2_s": 6.24e-2,
    "iq3_xxs": 3.31e-2,
    "iq3_s": 1.91e-2,
}
TABLED = ("iq4_nl", "iq4_xs")
VECTORS = tuple(name for name in GGML if name.startswith(("iq1", "iq2", "iq3")))
# group, levels from 0 or from both sides, of formats without a table
INTEGERS = {
    "q2_K": (16, 0, 3),
    "q3_K": (16, -4, 3),
    "q4_K": (32, 0, 15),
    "q5_K": (32, 0, 31),
    "q6_K": (16, -32, 31),
}


def normal(rows: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, 1024)).astype(np.float32)


def heavy_tailed(rows: int) -> Array:
    return np.random.default_rng(1).standard_t(3, (rows, 1024)).astype(np.float32)


def lost(name: str, x: Array, importance: Array | None = None) -> float:
    """The squared error after quantising, as a fraction of the squares."""
    weights = np.ones(1) if importance is None else importance
    off = x - dequantise(name, quantise_weights(name, x, importance))
    return float((weights * off**2).sum() / (weights * x**2).sum())


def plainly_lost(name: str, x: Array) -> float:
    """The same after rounding once under the scale of each group's extremes, kept in float32."""
    group, least, most = INTEGERS.get(name, (32, -1, 0))
    groups = x.reshape(-1, group).astype(np.float64)
    peak = np.abs(groups).max(axis=1, keepdims=True)
    if name not in INTEGERS:
        table = np.array(codecs.TABLE) / 127
        nearest = np.abs(groups[..., None] / peak[..., None] - table).argmin(axis=2)
        rounded = table[nearest] * peak
    elif least < 0:
        scale = peak / most
        rounded = np.clip(np.rint(groups / scale), least, most) * scale
    else:
        low = np.minimum(groups.min(axis=1, keepdims=True), 0)
        scale = (groups.max(axis=1, keepdims=True) - low) / most
        rounded = np.rint((groups - low) / scale) * scale + low
    return float(((rounded - groups) ** 2).sum() / (groups**2).sum())


def test_every_quantiser_is_held_against_ggml() -> None:
    assert GGML.keys() == QUANTISERS.keys()


@pytest.mark.parametrize("name", GGML)
def test_normal_numbers_lose_no_more_than_in_ggml(name: str) -> None:
    assert lost(name, normal(16 if name in VECTORS else 128)) < GGML[name]


@pytest.mark.parametrize("numbers", [normal, heavy_tailed], ids=["normal", "heavy_tailed"])
@pytest.mark.parametrize("name", [*INTEGERS, *TABLED])
def test_a_search_loses_less_than_plain_rounding(
    name: str, numbers: Callable[[int], Array]
) -> None:
    x = numbers(128)
    assert lost(name, x) < 0.95 * plainly_lost(name, x)


@pytest.mark.parametrize("name", QUANTISERS)
def test_heavy_tails_lose_two_and_a_half_times_as_much_at_most(name: str) -> None:
    """As normal numbers do: scales follow the largest number of a group, and not of a row."""
    assert lost(name, heavy_tailed(8)) < 2.5 * lost(name, normal(8))


@pytest.mark.parametrize("name", QUANTISERS)
def test_zeros_stay_zero_beside_a_single_number(name: str) -> None:
    x = np.zeros((3, 256), np.float32)
    x[1, 5] = -3
    found = dequantise(name, quantise_weights(name, x))
    assert not found[[0, 2]].any()
    assert found[1, 5] == pytest.approx(
        -3, rel=0.55 if name in VECTORS else 0.01
    )  # no vector is so


@pytest.mark.parametrize("name", QUANTISERS)
@pytest.mark.parametrize("constant", [1.0, -1.0, 6.5, 0.1, 1e-30, 1e3])
def test_a_constant_stays_one(name: str, constant: float) -> None:
    found = dequantise(name, quantise_weights(name, np.full((2, 256), constant)))
    assert found == pytest.approx(np.full((2, 256), constant), rel=0.06, abs=1e-7)


@pytest.mark.parametrize("name", [name for name in QUANTISED if name in QUANTISERS])
def test_what_was_quantised_once_hardly_changes_again(name: str) -> None:
    x = normal(4)
    once = dequantise(name, quantise_weights(name, x))
    twice = dequantise(name, quantise_weights(name, once))
    assert ((twice - once) ** 2).sum() < 0.02 * ((once - x) ** 2).sum()


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4", "f16"])
def test_what_gguf_quantised_once_changes_no_more(name: str) -> None:
    once = quantise_weights(name, normal(4))
    assert np.array_equal(quantise_weights(name, dequantise(name, once)), once)


@pytest.mark.parametrize("name", QUANTISERS)
def test_columns_that_matter_lose_less(name: str) -> None:
    x = normal(4 if name in VECTORS else 64)
    importance = np.where(np.arange(x.shape[1]) % 4, 0.01, 1).astype(np.float32)
    heeded, plain = quantise_weights(name, x, importance), quantise_weights(name, x)
    off = [np.square(x - dequantise(name, stored)) @ importance for stored in (heeded, plain)]
    assert off[0].sum() < 0.85 * off[1].sum()
    assert np.array_equal(quantise_weights(name, x, np.ones_like(x)), plain)


def test_the_shape_is_that_of_rows_of_blocks() -> None:
    x = normal(6).reshape(2, 3, 1024)
    stored = quantise_weights("q4_K", x)
    assert stored.shape == (2, 3, 4 * 144)
    assert np.array_equal(stored[1, 2], quantise_weights("q4_K", x[1, 2]))


@pytest.mark.parametrize("name", ["q4_K", "iq4_nl", "q8_0", "f16"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(name: str, odd: float) -> None:
    x = normal(2)
    x[1, 300] = odd
    with pytest.raises(UsageError, match=rf"the weights hold {odd} at \[1, 300\]$"):
        quantise_weights(name, x)


@pytest.mark.parametrize("name", [*QUANTISERS, "q8_0"])
@pytest.mark.parametrize("size", [2e9, 3e38])
def test_what_no_scale_can_reach_is_refused(name: str, size: float) -> None:
    with pytest.raises(UsageError, match="too large for the scales"):
        quantise_weights(name, normal(1) * np.float32(size / 4))


@pytest.mark.parametrize(
    ("name", "shape", "importance", "hint"),
    [
        ("q4_K", (2, 100), None, "rows of 100 are no whole blocks of q4_K, which hold 256"),
        ("q4_K", (), None, "rows of 1 are"),
        ("q8_0", (2, 64), 1.0, "the quantiser of q8_0 heeds no importance"),
        ("q4_K", (2, 256), -1.0, "nowhere below 0"),
        ("q4_K", (2, 256), np.nan, "finite"),
        ("q9_K", (2, 256), None, "unknown format 'q9_K'"),
        ("q8_K", (2, 256), None, "neither gguf nor vkbench can quantise to q8_K"),
    ],
)
def test_wrong_words_are_told(
    name: str, shape: tuple[int, ...], importance: float | None, hint: str
) -> None:
    weights = None if importance is None else np.full(shape, importance)
    with pytest.raises(UsageError, match=hint):
        quantise_weights(name, np.ones(shape), weights)
