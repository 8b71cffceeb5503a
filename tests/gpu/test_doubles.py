"""Functions of one f64 against numpy: any bits, ties and numbers beside integers."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

SIDE = 200


def numbers() -> Array:
    """A third of any bits, a third of halves, and a third at most one step beside integers."""
    random = np.random.Generator(np.random.Philox(key=5))
    count = SIDE * SIDE // 3
    any_bits = random.integers(0, 1 << 64, SIDE * SIDE - 2 * count, np.uint64).view(np.float64)
    halves = random.integers(-9, 9, count) / 2
    powers = 2.0 ** random.integers(-2, 55, count)
    whole = np.rint(random.uniform(-1, 1, count) * powers)
    beside = np.nextafter(whole, random.choice([-np.inf, np.inf, 0.0], count))
    return np.concatenate([any_bits, halves, beside]).reshape(1, 1, SIDE, SIDE)


def found(device: VulkanDevice, bundle: Bundle, name: str, x: Array) -> Array:
    posed = problem(f"{name}/f64/b1_c1_h{SIDE}_w{SIDE}")
    return compute(device, bundle, posed, "auto", {"x": x})[0]["y"]


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize(
    "name", ["abs", "neg", "sign", "step", "relu", "floor", "ceil", "round", "trunc", "clamp"]
)
def test_what_works_on_bits_is_numpy_s_to_the_bit(
    request: pytest.FixtureRequest, driver: str, bundle: Bundle, name: str
) -> None:
    x = numbers()
    y = found(request.getfixturevalue(driver), bundle, name, x)
    posed = problem(f"{name}/f64/b1_c1_h{SIDE}_w{SIDE}")
    wanted = posed.kernel.check.reference(posed, {"x": x}, None)["y"]
    nan = np.isnan(wanted)
    assert (np.isnan(y) == nan).all()
    np.testing.assert_array_equal(y.view(np.uint64)[~nan], wanted.view(np.uint64)[~nan])


def test_a_root_is_off_by_its_last_bits_at_most(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    x = np.abs(numbers())
    x[~(x > 1e-290)] = 2.0
    y = found(lavapipe, bundle, "sqrt", x)
    wanted = np.sqrt(x)
    finite = np.isfinite(wanted)
    assert (np.abs(y - wanted)[finite] <= wanted[finite] * 2.0**-50).all()
    assert np.isinf(y[~finite]).all()
