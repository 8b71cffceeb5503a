"""What path via_q8_1 rounds, and how far that may put its results off."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders import formats
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.rounded_factors import X_TO_BYTES

KERNELS = ("mul_mat_vec", "mul_mat_vec_id")


def rounded(x: Array) -> Array:
    """Blocks of 32 in bytes, and back."""
    blocks = x.astype(np.float64).reshape(-1, 32)
    steps = np.abs(blocks).max(axis=1, keepdims=True) / 127
    counts = np.divide(blocks, steps, out=np.zeros_like(blocks), where=steps > 0)
    return (np.round(counts) * steps).reshape(x.shape)


@pytest.mark.parametrize("name", KERNELS)
def test_deviations_are_those_of_rounding_x(name: str) -> None:
    """Over all listed cases: as large on the whole as they say, and none beyond five."""
    kernel = kernel_named(name)
    largest, shares = 0.0, []
    for case in kernel.cases:
        posed = Problem(kernel, case)
        if posed.types["x"] in ("q8_1", "q8_0") or posed.case.format in formats.PLAIN:
            continue
        inputs = kernel.inputs(posed)
        assert kernel.check.deviations
        said = kernel.check.deviations(posed, inputs, None, X_TO_BYTES)["y"]
        exact = kernel.check.reference(posed, inputs, None)["y"]
        off = (
            kernel.check.reference(posed, {**inputs, "x": rounded(inputs["x"])}, None)["y"] - exact
        )
        known = said > 0
        assert np.all(off[~known] == 0)
        largest = max(largest, float(np.max(np.abs(off[known]) / said[known])))
        shares.append(float(np.sum(off**2) / np.sum(said**2)))
    assert len(shares) > 150
    assert np.mean(shares) == pytest.approx(1, rel=0.1)
    assert 3 < largest < 5


def test_deviations_of_some_rows_are_those_rows() -> None:
    for name in ("mul_mat_vec/q4_K/m129_n3_k256", "mul_mat_vec_id/q4_K/e8_u3_m67_n4_k512"):
        posed = problem(name)
        inputs, rows = posed.kernel.inputs(posed), np.array([0, 7, 66])
        assert posed.kernel.check.deviations
        some = posed.kernel.check.deviations(posed, inputs, rows, X_TO_BYTES)["y"]
        every = posed.kernel.check.deviations(posed, inputs, None, X_TO_BYTES)["y"]
        np.testing.assert_allclose(some, every[..., rows], rtol=1e-12)
