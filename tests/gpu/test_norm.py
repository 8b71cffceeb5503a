"""What the cases of norms cannot show: means that are a million times what deviates from them."""

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
@pytest.mark.parametrize("width", [1025, 16896])
def test_a_large_mean_costs_no_accuracy(device: VulkanDevice, bundle: Bundle, width: int) -> None:
    posed = problem(f"layer_norm/f32/b1_c1_h3_w{width}")
    random = np.random.Generator(np.random.Philox(key=3))
    x = (1e6 + random.integers(-16, 17, (1, 1, 3, width))).astype(np.float32)
    outputs, _ = compute(device, bundle, posed, "auto", {**posed.kernel.inputs(posed), "x": x})
    away = x.astype(np.float64) - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    wanted = away / np.sqrt((away * away).mean(axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(outputs["y"], wanted, rtol=0, atol=1e-6)
