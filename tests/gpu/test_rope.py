"""What the cases of rope cannot show: positions as far as they go, and that it can be undone."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import cos, sin

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
POSITIONS = (0, 1, -1, 99_991, 1_000_003, 2**31 - 1, -(2**31))

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


def angle(position: int, pair: int) -> float:
    """Less all whole turns, from 50 digits."""
    with localcontext() as context:
        context.prec = 50
        exact = position * Decimal(10000) ** (Decimal(-2 * pair) / 64)
        return float(exact % (2 * PI))


@each_driver
def test_positions_may_be_as_far_as_integers_go(device: VulkanDevice, bundle: Bundle) -> None:
    posed = problem(f"rope/f32/b1_n{len(POSITIONS)}_h1_k64")
    x = np.zeros((1, len(POSITIONS), 1, 64), np.float32)
    x[..., ::2] = 1
    arrays = {**posed.kernel.inputs(posed), "x": x}
    arrays["positions"] = np.array([POSITIONS], np.int64).astype(np.int32)
    outputs, _ = compute(device, bundle, posed, "auto", arrays)
    wanted = [[f(angle(p, i)) for i in range(32) for f in (cos, sin)] for p in POSITIONS]
    np.testing.assert_allclose(outputs["y"][0, :, 0], wanted, rtol=0, atol=1e-6)


@each_driver
@pytest.mark.parametrize("how", ["", "/mode=neox,n_dims=64", "/factors=given,mode=mrope"])
def test_turning_back_undoes_it(device: VulkanDevice, bundle: Bundle, how: str) -> None:
    posed, back = (problem(f"{name}/f32/b2_n3_h5_k128{how}") for name in ("rope", "rope_back"))
    arrays = posed.kernel.inputs(posed)
    turned, _ = compute(device, bundle, posed, "auto", arrays)
    given = {name: arrays[name] for name in ("positions", "factors")}
    found, _ = compute(device, bundle, back, "auto", {"dy": turned["y"], **given})
    np.testing.assert_allclose(found["dx"], arrays["x"], rtol=0, atol=1e-6)
