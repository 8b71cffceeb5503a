"""Products that round their vectors: the path for devices without dot products, and odd vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from other_facts import checked
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

FORMATS = ("q4_0", "q5_1", "q2_K", "q6_K", "tq2_0", "iq3_s", "nvfp4")
CASES = (
    *(f"mul_mat_vec/{fmt}/m13_n3_k512" for fmt in FORMATS),
    "mul_mat_vec/q1_0:x=f16/m67_n7_k256/layout=strided",
    "mul_mat_vec_id/q2_0/e5_u2_m31_n5_k1024/x=expert",
)


@pytest.mark.parametrize("case", CASES)
def test_devices_without_integer_dot_products_have_it(
    swiftshader: VulkanDevice, bundle: Bundle, case: str
) -> None:
    facts = replace(swiftshader.facts, features=())
    verdict, planned = checked(swiftshader, bundle, case, "via_q8_1", facts)
    kernel = problem(case).kernel.name
    weights = problem(case).types["weights"]
    portable = f"{kernel}/{kernel}_bytes_portable<{weights}>"
    assert planned.passes[-1][0].code == bundle.code(portable)
    assert verdict.passed, verdict.reason


def products(
    device: VulkanDevice, bundle: Bundle, x: np.ndarray, rounding: str
) -> tuple[np.ndarray, np.ndarray]:
    """Of q8_0 weights with vectors: by via_q8_1, and exact."""
    posed = problem(f"mul_mat_vec/q8_0/m5_n{len(x)}_k{x.shape[1]}")
    arrays = {**posed.kernel.inputs(posed), "x": x.astype(np.float32)}
    found, path = compute(device, bundle, posed, f"via_q8_1:rounding={rounding}", arrays)
    assert path.startswith("via_q8_1")
    return found["y"], posed.kernel.check.reference(posed, arrays, None)["y"]


each_rounding = pytest.mark.parametrize("rounding", ["before", "inside"])


@each_rounding
def test_vectors_of_any_size_keep_their_scale(
    lavapipe: VulkanDevice, bundle: Bundle, rounding: str
) -> None:
    ones = np.resize(np.array([1.0, -127.0, 64.0, 0.0]), (1, 64))
    sizes = np.vstack([ones * size for size in (1e35, 1, 1e-33)])
    y, exact = products(lavapipe, bundle, sizes, rounding)
    np.testing.assert_allclose(y, exact, rtol=1e-4)
    y, _ = products(lavapipe, bundle, np.vstack([ones * 0, ones * 1e-39]), rounding)
    assert not y.any()


@each_rounding
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(
    lavapipe: VulkanDevice, bundle: Bundle, odd: float, rounding: str
) -> None:
    x = np.ones((3, 96))
    x[1, 40] = odd
    y, exact = products(lavapipe, bundle, x, rounding)
    assert not np.isfinite(y[1]).any()
    np.testing.assert_allclose(y[[0, 2]], exact[[0, 2]], rtol=1e-4)
