"""Inputs follow from the case alone, byte for byte, and are not only well-behaved noise."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from vkbench_shaders import data
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_shaders.quants import dequantise

# Inputs as they were when measurements began: another hash would break replays of old cases.
HASHES = {
    ("copy/f16/n4097", "x"): "c04c264071f0dfb7",
    ("add/f32/b2_c3_h5_w7", "b"): "67c9a404dda6fe4a",
    ("mul_mat_vec/q4_0/m129_n3_k256", "weights"): "228d1611fe812008",
    ("mul_mat_vec/q8_0/m129_n3_k256", "weights"): "6deb8717ac25f52b",
    ("mul_mat_vec/f16/m129_n3_k256", "weights"): "8ec44fff58776413",
    ("mul_mat_vec/f32/m129_n3_k256", "weights"): "f16e0bbba04fbb74",
    ("mul_mat_vec/f32/m129_n3_k256", "x"): "1450c4a78130f473",
}


def inputs(case: str) -> dict[str, Array]:
    posed = problem(case)
    return posed.kernel.inputs(posed)


@pytest.mark.parametrize(("case", "binding"), list(HASHES), ids=str)
def test_bytes_never_change(case: str, binding: str) -> None:
    found = hashlib.sha256(inputs(case)[binding].tobytes()).hexdigest()
    assert found[:16] == HASHES[case, binding]


def test_cases_and_bindings_have_data_of_their_own() -> None:
    one, other = inputs("add/f32/b2_c3_h5_w7"), inputs("add/f32/b2_c3_h5_w7/layout=strided")
    assert not np.array_equal(one["a"], one["b"])
    assert not np.array_equal(one["a"], other["a"])


def test_raw_bytes_are_philox_and_a_prefix_of_longer_ones() -> None:
    assert np.array_equal(data.raw(5, 1000)[:13], data.raw(5, 13))
    assert not np.array_equal(data.raw(5, 16), data.raw(6, 16))


def test_the_bell_is_one() -> None:
    values = data.bell(1, (1000, 100))
    assert abs(values.mean()) < 0.02
    assert 1.1 < values.std() < 1.3
    assert np.abs(values).max() < 4
    assert np.unique(values).size > 40_000


@pytest.mark.parametrize("name", ["f32", "f16"])
def test_plain_values_hold_special_ones(name: str) -> None:
    values = inputs(f"copy/{name}/n4097")["x"]
    assert values.dtype == np.dtype(name.replace("f32", "f4").replace("f16", "f2"))
    assert np.any((values == 0) & np.signbit(values))
    assert np.any((values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny))
    assert np.abs(values.astype(float)).max() == 1000
    assert np.all(np.isfinite(values))


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "f16", "f32"])
def test_weights_have_zero_rows_and_outlier_channels(name: str) -> None:
    weights = dequantise(name, inputs(f"mul_mat_vec/{name}/m129_n3_k4096")["weights"])
    zero = np.flatnonzero(~weights.any(axis=1))
    assert zero.tolist() == [7, 68]
    channel = np.sqrt((weights**2).mean(axis=0))
    outliers = np.count_nonzero(channel > 6 * np.median(channel))
    assert 0 < outliers < 400
    assert np.all(np.isfinite(weights))


def test_every_nibble_and_byte_value_occurs() -> None:
    nibbles = inputs("mul_mat_vec/q4_0/m129_n3_k256")["weights"].reshape(-1, 18)[:, 2:]
    assert np.unique(nibbles & 15).size == np.unique(nibbles >> 4).size == 16
    signed = inputs("mul_mat_vec/q8_0/m129_n3_k256")["weights"].reshape(-1, 34)[:, 2:]
    assert np.unique(signed).size == 256


def test_activations_have_outlier_channels() -> None:
    x = inputs("mul_mat_vec/f32/m3_n8_k4096")["x"]
    channel = np.abs(x).mean(axis=0)
    assert 20 < np.count_nonzero(channel > 6 * np.median(channel)) < 120
