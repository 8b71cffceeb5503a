"""What the cases of recurrences cannot show: that a state goes on, and that a delta rule learns."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


def part(kernel: str, arrays: dict[str, Array], tokens: slice) -> dict[str, Array]:
    """Inputs of some tokens; what is not of tokens stays."""
    of = {binding.name: binding.dims for binding in kernel_named(kernel).bindings}
    return {n: array[:, tokens] if "t" in of[n] else array for n, array in arrays.items()}


@each_driver
@pytest.mark.parametrize("variant", ["subgroup", "portable"])
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        ("gated_delta_net", "h2_g1_d64"),
        ("rwkv_wkv6", "h2_d32"),
        ("rwkv_wkv7", "h2_d32"),
        ("gated_linear_attn", "h2_d16"),
        ("ssm_scan", "h2_g1_p16_d16"),
    ],
)
def test_two_launches_are_one(
    device: VulkanDevice, bundle: Bundle, kernel: str, sizes: str, variant: str
) -> None:
    """Bit for bit: the state that comes out of one goes into the next, whatever the chunks."""

    def run(arrays: dict[str, Array], tokens: int) -> dict[str, Array]:
        posed = problem(f"{kernel}/f32/s2_t{tokens}_{sizes}")
        return dict(compute(device, bundle, posed, variant, arrays)[0])

    whole = problem(f"{kernel}/f32/s2_t37_{sizes}")
    arrays = whole.kernel.inputs(whole)
    if "ids" in arrays:
        arrays["ids"] = np.arange(2, dtype=np.int32)
    first = run(part(kernel, arrays, slice(20)), 20)
    second = run({**part(kernel, arrays, slice(20, 37)), "state": first["next_state"]}, 17)
    found = run(arrays, 37)
    both = np.concatenate([first["y"], second["y"]], axis=1)
    np.testing.assert_array_equal(found["y"].view(np.uint32), both.view(np.uint32))
    np.testing.assert_array_equal(
        found["next_state"].view(np.uint32), second["next_state"].view(np.uint32)
    )


@each_driver
def test_a_delta_rule_remembers_the_last_value_of_a_key(
    device: VulkanDevice, bundle: Bundle
) -> None:
    """Three keys at right angles, learnt in full; the first one twice, with another value."""
    posed = problem("gated_delta_net/f32/s1_t7_h1_g1_d16")
    keys = np.eye(16, dtype=np.float32)[[0, 1, 2, 0, 0, 1, 2]]
    values = np.arange(7 * 16, dtype=np.float32).reshape(7, 16)
    arrays: dict[str, Array] = {
        "v": values.reshape(1, 7, 1, 16),
        "state": np.ones((1, 1, 16, 16), np.float32),
        "k": keys.reshape(1, 7, 1, 16),
        "q": keys.reshape(1, 7, 1, 16),
        "gate": np.zeros((1, 7, 1, 1), np.float32),
        "beta": np.array([1, 1, 1, 1, 0, 0, 0], np.float32).reshape(1, 7, 1),
    }
    y = compute(device, bundle, posed, "auto", arrays)[0]["y"].reshape(7, 16)
    np.testing.assert_array_equal(y * 4, values[[0, 1, 2, 3, 3, 1, 2]])
