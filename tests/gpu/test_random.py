"""Random numbers go on from launch to launch by the state that each leaves behind."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.inputs import philox
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

STATE = np.array([1, 2, 2**32 - 300, 2**32 - 1, 5, 6], np.uint32)  # carries over two words


def numbers(device: VulkanDevice, bundle: Bundle, case: str, state: Array) -> tuple[Array, Array]:
    outputs, _ = compute(device, bundle, problem(case), "auto", {"state": state})
    return outputs["y"], outputs["advanced"]


def check(device: VulkanDevice, bundle: Bundle, kernel: str) -> None:
    first, between = numbers(device, bundle, f"{kernel}/f32/n3000", STATE)
    second, after = numbers(device, bundle, f"{kernel}/f32/n1000", between)
    whole, end = numbers(device, bundle, f"{kernel}/f32/n4000", STATE)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    np.testing.assert_array_equal(after, end)
    np.testing.assert_array_equal(end, philox.advance_counter(STATE, 1000))


@pytest.mark.parametrize("kernel", ["rand_uniform", "rand_normal"])
def test_lavapipe_goes_on_where_it_was(lavapipe: VulkanDevice, bundle: Bundle, kernel: str) -> None:
    check(lavapipe, bundle, kernel)


@pytest.mark.parametrize("kernel", ["rand_uniform", "rand_normal"])
def test_swiftshader_goes_on_where_it_was(
    swiftshader: VulkanDevice, bundle: Bundle, kernel: str
) -> None:
    check(swiftshader, bundle, kernel)


def test_no_number_reaches_the_upper_bound(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    """1 + (1 - 2^-24) would round to 2."""
    case = "rand_uniform/f16/n4000000/high=2.0,low=1.0"
    found, _ = numbers(lavapipe, bundle, case, STATE)
    assert found.min() == 1
    assert found.max() == np.nextafter(np.float16(2), np.float16(0))


@pytest.mark.parametrize(
    ("low", "high", "most"), [(1, 2, 0x3FFF), (-2, -1, 0xBF81), (-1, 0, 0x8001)]
)
def test_no_bf16_reaches_the_upper_bound(
    lavapipe: VulkanDevice, bundle: Bundle, low: float, high: float, most: int
) -> None:
    case = f"rand_uniform/bf16/n100000/high={high:.1f},low={low:.1f}"
    found, _ = numbers(lavapipe, bundle, case, STATE)
    singles = (found.astype(np.uint32) << 16).view(np.float32)
    assert singles.min() == low
    assert singles.max() <= np.array([most << 16], np.uint32).view(np.float32)[0] < high


def test_numbers_of_f64_go_on_where_they_were(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    first, between = numbers(lavapipe, bundle, "rand_uniform/f64/n3000", STATE)
    second, _ = numbers(lavapipe, bundle, "rand_uniform/f64/n1001", between)
    whole, _ = numbers(lavapipe, bundle, "rand_uniform/f64/n4001", STATE)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    assert ((whole >= 0) & (whole < 1)).all()


def test_normal_numbers_of_f64_are_spread_as_they_should(
    lavapipe: VulkanDevice, bundle: Bundle
) -> None:
    first, between = numbers(lavapipe, bundle, "rand_normal/f64/n30000", STATE)
    second, _ = numbers(lavapipe, bundle, "rand_normal/f64/n10001", between)
    whole, _ = numbers(lavapipe, bundle, "rand_normal/f64/n40001", STATE)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    assert abs(whole.mean()) < 0.03
    assert abs(whole.std() - 1) < 0.02
    assert abs((whole**4).mean() - 3) < 0.2
    assert 3.5 < np.abs(whole).max() < 6
