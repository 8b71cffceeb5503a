"""What each number becomes in another format, written out."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import quants
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
INF, NAN = float("inf"), float("nan")


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


def cast(device: VulkanDevice, bundle: Bundle, x: str, y: str, values: Array) -> Array:
    posed = problem(f"to_dtype/{x}:y={y}/b1_c1_h1_w{values.size}")
    arrays = {"x": values.reshape(1, 1, 1, -1)}
    return compute(device, bundle, posed, "auto", arrays)[0]["y"].reshape(-1)


@each_driver
@pytest.mark.parametrize(
    ("y", "found"),
    [
        ("i32", [0, 2, -2, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]),
        ("u32", [0, 2, 0, 2**32 - 1, 0, 2**32 - 1, 0, 0]),
        ("u8", [0, 2, 0, 255, 0, 255, 0, 0]),
        ("i64", [0, 2, -2, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 0]),
        ("f8_e4m3", [-0.0, 2.75, -2.75, NAN, NAN, NAN, NAN, NAN]),
    ],
)
def test_singles_are_cut_to_integers_and_saturate(
    device: VulkanDevice, bundle: Bundle, y: str, found: list[float]
) -> None:
    values = np.array([-0.0, 2.75, -2.75, 1e30, -1e30, INF, -INF, NAN], np.float32)
    made = cast(device, bundle, "f32", y, values)
    wanted = quants.quantise(y, np.array(found)) if y == "f8_e4m3" else np.array(found, made.dtype)
    np.testing.assert_array_equal(quants.dequantise(y, made), quants.dequantise(y, wanted))


@each_driver
def test_doubles_are_rounded_once(device: VulkanDevice, bundle: Bundle) -> None:
    """Rounded to a single first, these would lie half way between two halves, or two bf16."""
    values = np.array([1 + 2**-11 + 2**-40, 1 + 3 * 2**-11 - 2**-40, 2.0**-25 * (1 + 2**-40)])
    found = cast(device, bundle, "f64", "f16", values)
    np.testing.assert_array_equal(found, np.array([1 + 2**-10, 1 + 2**-10, 2**-24], np.float16))
    values = np.array([1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40])
    np.testing.assert_array_equal(cast(device, bundle, "f64", "bf16", values), [0x3F81, 0x3F81])
    whole = np.array([2**62 + 2**54 + 1, 2**53 + 1, 2**53 + 3, -(2**63)])
    np.testing.assert_array_equal(cast(device, bundle, "i64", "bf16", whole)[0], 0x5E81)
    found = cast(device, bundle, "i64", "f64", whole)
    np.testing.assert_array_equal(found, whole.astype(np.float64))


@each_driver
def test_eight_bits_go_as_far_as_464(device: VulkanDevice, bundle: Bundle) -> None:
    values = np.array([448, 464, 464.0001, 480, 2**-10, 2**-10 * 1.0001, 3 * 2**-10], np.float32)
    found = cast(device, bundle, "f32", "f8_e4m3", values)
    np.testing.assert_array_equal(found, [0x7E, 0x7E, 0x7F, 0x7F, 0, 1, 2])


@each_driver
def test_integers_wrap_around(device: VulkanDevice, bundle: Bundle) -> None:
    values = np.array([-1, 2**32 + 5, 2**31, 255, 256])
    for y in ("i32", "u32", "u8"):
        found = cast(device, bundle, "i64", y, values)
        np.testing.assert_array_equal(found, values.astype(found.dtype))
    found = cast(device, bundle, "i32", "i64", np.array([-1, -(2**31)], np.int32))
    np.testing.assert_array_equal(found, [-1, -(2**31)])
