"""What the cases of softmax cannot show: zeros that are exactly zeros, and totals of long rows."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


@each_driver
@pytest.mark.parametrize("width", [64, 16896])
@pytest.mark.parametrize("sinks", ["none", "heads"])
def test_what_the_mask_hides_is_exactly_zero(
    device: VulkanDevice, bundle: Bundle, width: int, sinks: str
) -> None:
    params = "mask=all" if sinks == "none" else f"mask=all,sinks={sinks}"
    posed = problem(f"softmax/f32/b1_c2_h3_w{width}/{params}")
    arrays = posed.kernel.inputs(posed)
    mask = np.zeros((1, 3, width), np.float32)
    mask[:, 1] = mask[:, 2, 1::2] = -np.inf
    outputs, _ = compute(device, bundle, posed, "auto", {**arrays, "mask": mask})
    hidden = np.broadcast_to(np.isneginf(mask), outputs["y"].shape)
    np.testing.assert_array_equal(outputs["y"][hidden], 0)
    assert (outputs["y"][~hidden] > 0).any()


@each_driver
def test_a_million_equal_numbers_have_equal_parts(device: VulkanDevice, bundle: Bundle) -> None:
    posed = problem("softmax/f32/b1_c1_h1_w1000003")
    arrays = {**posed.kernel.inputs(posed), "x": np.full((1, 1, 1, 1000003), 1e30, np.float32)}
    outputs, _ = compute(device, bundle, posed, "auto", arrays)
    np.testing.assert_allclose(outputs["y"], 1 / 1000003, rtol=1e-6)
