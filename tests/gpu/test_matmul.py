"""matmul in singles against float64 on randn: the parity that GPU back ends are asked for.

An error counts in the RMS of the reference, as wherever vkbench judges a product in true f32.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.tolerance import LIMITS
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Matrix = NDArray[np.float32]


def product(device: VulkanDevice, bundle: Bundle, a: Matrix, b: Matrix, params: str = "") -> Matrix:
    (m, k), n = a.shape, b.shape[1]
    posed = problem(f"matmul/f32/b1_m{m}_n{n}_k{k}{params}")
    outputs, _ = compute(device, bundle, posed, "portable", {"a": a[None], "b": b[None]})
    return np.asarray(outputs["y"][0], np.float32)


def randn(seed: int, m: int, n: int, k: int) -> tuple[Matrix, Matrix]:
    random = np.random.default_rng(seed)
    shapes = ((m, k), (k, n))
    a, b = (random.standard_normal(shape, np.float32) for shape in shapes)
    return a, b


def errors(found: Matrix, a: Matrix, b: Matrix) -> NDArray[np.float64]:
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    return np.asarray((found - wanted) / np.sqrt(np.mean(wanted**2)))


def check_parity(device: VulkanDevice, bundle: Bundle) -> None:
    a, b = randn(1, 128, 128, 128)
    off = errors(product(device, bundle, a, b), a, b)
    assert np.abs(off).max() <= LIMITS["f32_true"].max_abs == 1e-5
    assert np.sqrt(np.mean(off**2)) <= 5e-7


def test_lavapipe_is_within_1e_5_of_float64(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    check_parity(lavapipe, bundle)


def test_swiftshader_is_within_1e_5_of_float64(swiftshader: VulkanDevice, bundle: Bundle) -> None:
    check_parity(swiftshader, bundle)


def test_long_sums_lose_no_more_than_short_ones(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    """A plain sum of 8192 products is off by 1.6e-6, and by more than 1e-5 here and there."""
    a, b = randn(2, 32, 32, 8192)
    off = errors(product(lavapipe, bundle, a, b, "/split=1,tile=32x32_4x4"), a, b)
    assert np.sqrt(np.mean(off**2)) <= 8e-7


@pytest.mark.parametrize("tile", ["32x32_4x4", "32x32_4x4x4", "64x64_8x8"])
def test_what_is_not_finite_stays_in_its_row_and_column(
    lavapipe: VulkanDevice, bundle: Bundle, tile: str
) -> None:
    """Numbers past the edges are made up: they may not meet those of other rows."""
    a, b = randn(3, 37, 35, 19)
    a[36, 18], b[18, 34], b[0, 3] = np.nan, np.inf, -np.inf
    found = product(lavapipe, bundle, a, b, f"/tile={tile}")
    spoilt = np.zeros(found.shape, bool)
    spoilt[36], spoilt[:, [3, 34]] = True, True
    np.testing.assert_array_equal(~np.isfinite(found), spoilt)
