"""What the cases of get_rows cannot show: every kind of rounding to halves, numbers of no row."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.program import POISON_A
from vkbench_worker.runtime.vulkan.device import VulkanDevice

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


@each_driver
@pytest.mark.parametrize("cut", [0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF])
def test_singles_become_the_nearest_halves(device: VulkanDevice, bundle: Bundle, cut: int) -> None:
    """All that a half keeps of a single, before every kind of what it cuts off."""
    kept = np.arange(1 << 19, dtype=np.uint32) << 13
    singles = (kept | np.uint32(cut)).view(np.float32)
    posed = problem(f"get_rows/f32:y=f16/m1_n1_k{singles.size}")
    arrays = {"table": singles.reshape(1, -1), "ids": np.zeros(1, np.int32)}
    outputs, _ = compute(device, bundle, posed, "auto", arrays)
    with np.errstate(over="ignore", invalid="ignore"):
        halves = singles.astype(np.float16)
    found = outputs["y"][0]
    numbers = ~np.isnan(singles)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found[numbers].view(np.uint16), halves[numbers].view(np.uint16))


@each_driver
@pytest.mark.parametrize("formats", ["f16", "f16:y=f16"])
def test_nothing_is_stored_for_a_row_that_the_table_lacks(
    device: VulkanDevice, bundle: Bundle, formats: str
) -> None:
    posed = problem(f"get_rows/{formats}/m3_n5_k33")
    table = posed.kernel.inputs(posed)["table"]
    ids = np.array([2, 3, 0, -1, 1], np.int32)
    outputs, _ = compute(device, bundle, posed, "auto", {"table": table, "ids": ids})
    found = outputs["y"]
    np.testing.assert_array_equal(found[[0, 2, 4]], table[[2, 0, 1]].astype(found.dtype))
    poison = np.full(5 * 33, POISON_A, np.uint32).view(found.dtype)[: 5 * 33].reshape(5, 33)
    bits = f"u{found.itemsize}"
    np.testing.assert_array_equal(found[[1, 3]].view(bits), poison[[1, 3]].view(bits))
