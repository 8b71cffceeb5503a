"""What the cases of indexed kernels cannot show: a hundred runs, the order of sums, odd numbers."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


def inputs_of(name: str) -> dict[str, Array]:
    posed = problem(name)
    return posed.kernel.inputs(posed)


@each_driver
@pytest.mark.parametrize(
    "case",
    [
        "scatter_add/f32/o1_m5_n3000_k1",  # many meet in one workgroup, and several segments
        "scatter_add/f16/o2_m5_n300_k3",
        "scatter_add/f32/o1_m3_n40_k2100",  # a column a thread
        "index_add/f32/o1_m5_n3000_k2",
    ],
)
def test_a_hundred_sums_have_the_same_bits(device: VulkanDevice, bundle: Bundle, case: str) -> None:
    posed, arrays = problem(case), inputs_of(case)
    found = {compute(device, bundle, posed, "auto", arrays)[0]["y"].tobytes() for _ in range(100)}
    assert len(found) == 1


@each_driver
def test_sums_are_made_in_order(device: VulkanDevice, bundle: Bundle) -> None:
    """1 is lost beside 1e8 until that is taken away again, and only then."""
    x = np.array([1, 1e8, 1, -1e8, 1, 1], np.float32).reshape(1, 6, 1)
    for k in (1, 2100):
        arrays: dict[str, Array] = {
            "base": np.zeros((1, 2, k), np.float32),
            "x": np.repeat(x, k, 2),
            "ids": np.ones((1, 6, k), np.int32),
        }
        posed = problem(f"scatter_add/f32/o1_m2_n6_k{k}")
        found = compute(device, bundle, posed, "auto", arrays)[0]["y"]
        np.testing.assert_array_equal(found[0], np.repeat([[0.0], [2.0]], k, 1))


def test_sums_of_f64_are_made_in_order_too(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    x = np.array([1, 1e17, 1, -1e17, 1, 1]).reshape(1, 6, 1)
    for k in (1, 2100):
        arrays: dict[str, Array] = {
            "base": np.zeros((1, 2, k)),
            "x": np.repeat(x, k, 2),
            "ids": np.ones((1, 6, k), np.int32),
        }
        posed = problem(f"scatter_add/f64/o1_m2_n6_k{k}")
        found = compute(lavapipe, bundle, posed, "auto", arrays)[0]["y"]
        np.testing.assert_array_equal(found[0], np.repeat([[0.0], [2.0]], k, 1))


@each_driver
def test_of_several_for_one_place_the_last_stays(device: VulkanDevice, bundle: Bundle) -> None:
    n = 1000
    arrays: dict[str, Array] = {
        "y": np.zeros((1, 3, 1), np.float16),
        "x": np.arange(n, dtype=np.float16).reshape(1, n, 1),
        "ids": np.where(np.arange(n) < n - 7, 1, 2).astype(np.int32).reshape(1, n, 1),
    }
    posed = problem(f"scatter/f16/o1_m3_n{n}_k1")
    found = compute(device, bundle, posed, "auto", arrays)[0]["y"]
    np.testing.assert_array_equal(found[0, :, 0], [0, n - 8, n - 1])


@each_driver
@pytest.mark.parametrize(
    ("fmt", "bits"),
    [
        ("f32", np.array([0x80000000, 1, 0x7FC12345, 0x807FFFFF], np.uint32).view(np.float32)),
        ("f16", np.array([0x8000, 1, 0x7E45, 0x83FF], np.uint16).view(np.float16)),
    ],
)
@pytest.mark.parametrize("k", [1, 2100])
def test_what_nothing_is_added_to_keeps_its_bits(
    device: VulkanDevice, bundle: Bundle, fmt: str, bits: Array, k: int
) -> None:
    arrays: dict[str, Array] = {
        "base": np.repeat(bits.reshape(1, 4, 1), k, 2),
        "x": np.ones((1, 2, k), bits.dtype),
        "ids": np.repeat(np.array([-1, 4]).reshape(1, 2, 1), k, 2),
    }
    posed = problem(f"scatter_add/{fmt}:ids=i64/o1_m4_n2_k{k}")
    found = compute(device, bundle, posed, "auto", arrays)[0]["y"]
    assert found.tobytes() == arrays["base"].tobytes()
