"""Inputs as they lie in memory, and the rows of a sampled reference."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Layout
from vkbench_worker.judging.preparation import LEAST_ROWS, lay_out_array, prepare, sample_rows
from vkbench_worker.judging.shelf import Shelf


@pytest.mark.parametrize("case", ["mul_mat_vec/q4_0/m64_n8_k96", "copy/f32/n16777216"])
def test_small_cases_and_those_without_rows_are_whole(case: str) -> None:
    assert sample_rows(problem(case)) is None


@pytest.mark.parametrize(
    "case", ["mul_mat_vec/q8_0/m4096_n1_k14336", "mul_mat/f32/m4096_n512_k4096"]
)
def test_big_cases_are_sampled_at_ends_edges_and_random(case: str) -> None:
    rows = sample_rows(problem(case))
    assert rows is not None
    assert LEAST_ROWS <= len(rows) < 4096
    assert {0, 31, 32, 127, 128, 4095, 4096 - 128}.issubset(rows)
    assert np.all(np.diff(rows) > 0)
    again = sample_rows(problem(case))
    assert again is not None
    assert np.array_equal(rows, again)


def test_gaps_hold_nan_so_that_reading_one_shows() -> None:
    layout = Layout(shape=(2, 3), strides=(5, 1), offset=1, storage=11)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    flat = lay_out_array(array, layout)
    assert np.array_equal(layout.view(flat), array)
    assert np.count_nonzero(np.isnan(flat)) == 5


def test_permuted_arrays_are_stored_as_their_layout_says() -> None:
    layout = Layout(shape=(2, 3), strides=(1, 2), storage=6)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(lay_out_array(array, layout), array.T.ravel())


def test_the_shelf_gives_the_same_again_and_forgets_the_oldest() -> None:
    first, second = problem("copy/f32/n1000003"), problem("copy/f16/n1000003")
    shelf = Shelf(prepare(first).nbytes)
    kept = shelf.get(first)
    assert shelf.get(first) is kept
    shelf.get(second)
    assert shelf.nbytes <= kept.nbytes
    assert shelf.get(first) is not kept
