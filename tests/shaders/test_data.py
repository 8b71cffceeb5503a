"""Inputs follow from the case alone, byte for byte, and are not only well-behaved noise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from vkbench.case import Case
from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import FORMATS, PLAIN, WEIGHTS, format_named
from vkbench_shaders.inputs import data, noise
from vkbench_shaders.inputs.blocks import random_blocks
from vkbench_shaders.kernel import Array, Binding, Check, Forms, Kernel, Problem, Work
from vkbench_shaders.quantisers.quants import dequantise, quantise

# Inputs as they were when measurements began: another hash would break replays of old cases.
HASHES = {
    ("copy/f16/n4097", "x"): "c04c264071f0dfb7",
    ("add/f32/b2_c3_h5_w7", "b"): "6fd701723ca8222a",
    ("mul_mat_vec/q4_0/m129_n3_k256", "weights"): "78bfe8702770c38b",
    ("mul_mat_vec/q8_0/m129_n3_k256", "weights"): "eb208aaced77a7d8",
    ("mul_mat_vec/f16/m129_n3_k256", "weights"): "602dfed4e6114f8b",
    ("mul_mat_vec/f32/m129_n3_k256", "weights"): "cf12eaf0971db2e2",
    ("mul_mat_vec/f32/m129_n3_k256", "x"): "87ca976f7ea452da",
}


def posed(fmt: str, **shape: int) -> Problem:
    """A problem of a kernel with nothing but one array, `x`, of any format and dimensions."""
    array = Binding(
        name="x", access="in", types=tuple(fmt.name for fmt in FORMATS), dims=tuple(shape)
    )
    kernel = Kernel(
        name="any",
        group="any",
        description="Has data.",
        dims=tuple(shape),
        bindings=(array,),
        variants=(),
        inputs=lambda problem: {},
        check=Check(reference=lambda problem, arrays, rows: {}),
        work=Work(flops=lambda problem: 0),
        forms=Forms(infer=lambda shapes, types: {}),
        cases=(),
        timed=(),
    )
    return Problem(kernel, Case(kernel="any", format=fmt, shape=shape))


def inputs(case: str) -> dict[str, Array]:
    posed = problem(case)
    return posed.kernel.inputs(posed)


@pytest.mark.parametrize(("case", "binding"), list(HASHES), ids=str)
def test_bytes_never_change(case: str, binding: str) -> None:
    found = hashlib.sha256(inputs(case)[binding].tobytes()).hexdigest()
    assert found[:16] == HASHES[case, binding]


# The same for what may be made without a kernel of the catalogue
MADE = {
    ("bf16", "plain"): "035917b94d8b1d4c",
    ("i32", "plain"): "d137dbc14f31dfdc",
    ("bf16", "weights"): "6025d9b1538f1691",
    ("i32", "weights"): "60d7578d7a8a53f0",
    ("f16", "activations"): "c0bbb61e1c89270c",
    ("q8_1", "activations"): "fecab847458d3afe",
    ("i64", "indices"): "d159cf9ffc3e45fb",
    ("i32", "distinct"): "bb8cc69ebdec8f33",
}
MAKERS: dict[str, Callable[[Problem, str], Array]] = {
    "plain": data.plain_values,
    "weights": data.weights,
    "activations": data.activations,
    "indices": partial(data.indices, below=1000),
    "distinct": partial(data.distinct, below=1000),
}


@pytest.mark.parametrize(("name", "maker"), list(MADE))
def test_made_bytes_never_change(name: str, maker: str) -> None:
    made = MAKERS[maker](posed(name, m=129, k=256), "x")
    assert hashlib.sha256(made.tobytes()).hexdigest()[:16] == MADE[name, maker]


def test_cases_and_bindings_have_data_of_their_own() -> None:
    one, other = inputs("add/f32/b2_c3_h5_w7"), inputs("add/f32/b2_c3_h5_w7/layout=strided")
    assert not np.array_equal(one["a"], one["b"])
    assert not np.array_equal(one["a"], other["a"])


def test_raw_bytes_are_philox_and_a_prefix_of_longer_ones() -> None:
    assert np.array_equal(noise.raw(5, 1000)[:13], noise.raw(5, 13))
    assert not np.array_equal(noise.raw(5, 16), noise.raw(6, 16))


def test_the_bell_is_one() -> None:
    values = noise.bell(1, (1000, 100))
    assert abs(values.mean()) < 0.02
    assert 1.1 < values.std() < 1.3
    assert np.abs(values).max() < 4
    assert np.unique(values).size > 40_000


@pytest.mark.parametrize("name", PLAIN)
def test_plain_values_hold_special_ones(name: str) -> None:
    stored = data.plain_values(posed(name, n=4097), "x")
    assert stored.dtype == format_named(name).dtype
    values = dequantise(name, stored)
    assert np.any((values == 0) & np.signbit(values))
    least = 2.0**-14 if name == "f16" else 2.0**-126
    assert np.any((values != 0) & (np.abs(values) < least))
    assert np.abs(values).max() == 1000
    assert np.isfinite(values).all()
    assert 1.1 < np.std(values[np.abs(values) < 4]) < 1.3


def test_plain_integers_are_of_all_sizes() -> None:
    values = data.plain_values(posed("i32", n=4097), "x")
    assert values.dtype == np.int32
    assert {0, -1, 2**31 - 1, -(2**31)} <= set(values.tolist())
    assert np.unique(values).size > 4000


@pytest.mark.parametrize("name", [*PLAIN, "i32"])
def test_plain_weights_are_random_rows(name: str) -> None:
    stored = data.weights(posed(name, m=129, k=1024), "x")
    assert (stored.dtype, stored.shape) == (format_named(name).dtype, (129, 1024))
    assert np.unique(stored).size > 2000


@pytest.mark.parametrize("name", PLAIN)
def test_plain_weights_have_zero_rows_and_outlier_channels(name: str) -> None:
    weights = dequantise(name, data.weights(posed(name, m=129, k=4096), "x"))
    assert np.flatnonzero(~weights.any(axis=1)).tolist() == [7, 68]
    channel = np.sqrt((weights**2).mean(axis=0))
    assert 10 < np.count_nonzero(channel > 6 * np.median(channel)) < 100
    assert 0.5 < np.median(np.abs(weights)) < 1.5
    assert np.abs(weights).max() < 128


@pytest.mark.parametrize("name", WEIGHTS)
def test_quantised_weights_are_test_blocks(name: str) -> None:
    problem = posed(name, m=129, k=512)
    fmt = format_named(name)
    expected = random_blocks(fmt, lambda what: problem.seed(f"x.{what}"), 129, 512 // fmt.elements)
    assert np.array_equal(data.weights(problem, "x"), expected)


@pytest.mark.parametrize("name", ["f32", "bf16", "q4_0", "q6_K"])
def test_matrices_of_a_batch_are_more_rows(name: str) -> None:
    stored = data.weights(posed(name, c=3, b=2, m=11, k=256), "x")
    assert stored.shape == (3, 2, 11, format_named(name).items(256))
    rows = dequantise(name, stored).reshape(66, 256)
    assert not rows[7].any()
    assert rows[8].any()


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "q8_1"])
def test_activations_are_the_same_values_in_any_format(name: str) -> None:
    problem = posed(name, n=5, k=512)
    stored = data.activations(problem, "x")
    assert (stored.dtype, stored.shape) == (format_named(name).dtype, problem.array_shape("x"))
    values = noise.bell(problem.seed("x"), (5, 512))
    values *= noise.channels(problem.seed("x.channels"), 512, one_in=64)
    assert np.array_equal(stored, quantise(name, values))


@pytest.mark.parametrize(("name", "dtype"), [("i32", np.int32), ("i64", np.int64)])
def test_indices_repeat_and_meet_both_ends(name: str, dtype: type) -> None:
    numbers = data.indices(posed(name, b=4, n=500), "x", 77)
    assert (numbers.dtype, numbers.shape) == (dtype, (4, 500))
    assert np.unique(numbers).tolist() == [*range(77)]
    assert numbers.ravel()[:2].tolist() == [76, 0]


def test_one_index_is_the_last() -> None:
    assert data.indices(posed("i32", n=1), "x", 9).tolist() == [8]


def test_indices_of_bytes_stay_below_256() -> None:
    """Where a case has more to choose from than a byte can say."""
    numbers = data.indices(posed("u8", b=4, n=5000), "x", 3001)
    assert np.unique(numbers).tolist() == [*range(256)]
    assert numbers.ravel()[:2].tolist() == [255, 0]


@pytest.mark.parametrize(("name", "dtype"), [("i32", np.int32), ("i64", np.int64)])
def test_distinct_indices_differ_along_the_last_axis(name: str, dtype: type) -> None:
    numbers = data.distinct(posed(name, b=40, n=8), "x", 11)
    assert (numbers.dtype, numbers.shape) == (dtype, (40, 8))
    assert all(np.unique(row).size == 8 for row in numbers)
    assert np.unique(numbers).tolist() == [*range(11)]
    assert np.unique(numbers[:, 0]).size > 5


def test_a_permutation_is_the_most_that_is_distinct() -> None:
    assert sorted(data.distinct(posed("i32", n=300), "x", 300).tolist()) == [*range(300)]
    with pytest.raises(ValueError, match="only 299 are distinct"):
        data.distinct(posed("i32", n=300), "x", 299)


def test_activations_have_outlier_channels() -> None:
    x = data.activations(posed("f32", n=8, k=4096), "x")
    channel = np.abs(x).mean(axis=0)
    assert 20 < np.count_nonzero(channel > 6 * np.median(channel)) < 120
