"""What the cases of attention cannot show: rows that see nothing or one position, no positions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from other_facts import checked
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.quantisers import quants
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

SHAPE = "s1_h4_g2_q20_n150_d64_e96"
PATHS = ("flash_attn/{}/path=split", "flash_attn/{}/path=tiles", "sdpa/{}")
each_driver = pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
each_path = pytest.mark.parametrize("path", PATHS, ids=["split", "tiles", "unfused"])


@pytest.fixture
def device(request: pytest.FixtureRequest, driver: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(driver)
    return found


def posed(path: str, formats: str, shape: str, params: str = "") -> Problem:
    """A problem on one of the paths."""
    given = path.format(f"{formats}/{shape}")
    return problem(f"{given}{',' if '=' in given else '/'}{params}" if params else given)


@each_driver
@each_path
@pytest.mark.parametrize("sinks", ["no", "yes"])
def test_a_row_that_sees_nothing_is_zero(
    device: VulkanDevice, bundle: Bundle, path: str, sinks: str
) -> None:
    """And those beside it, which see one position, are its values: bit for bit."""
    asked = posed(path, "f16", SHAPE, f"mask=causal,sinks={sinks}")
    arrays = asked.kernel.inputs(asked)
    arrays["mask"][:] = -np.inf
    arrays["mask"][1::2, 149] = 3
    arrays["sinks"][:] = -1e30  # far below all scores
    outputs, _ = compute(device, bundle, asked, "auto", arrays)
    assert not outputs["y"][:, :, ::2].any()
    seen = arrays["v"][:, :, 149:].astype(np.float32)
    found = outputs["y"][:, :, 1::2]
    np.testing.assert_array_equal(found, seen.repeat(2, axis=1).repeat(10, axis=2))


@each_driver
@each_path
def test_without_positions_all_is_zero(device: VulkanDevice, bundle: Bundle, path: str) -> None:
    asked = posed(path, "f32", "s2_h2_g1_q3_n0_d8_e5")
    outputs, _ = compute(device, bundle, asked, "auto", asked.kernel.inputs(asked))
    assert outputs["y"].shape == (2, 2, 3, 5)
    assert not outputs["y"].any()


@each_driver
@pytest.mark.parametrize("fmt", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"])
def test_blocks_are_read_as_what_they_stand_for(
    device: VulkanDevice, bundle: Bundle, fmt: str
) -> None:
    """One position alone: its values, its minimum added with a rounding or without."""
    asked = problem(f"flash_attn/{fmt}/s1_h1_g1_q1_n1_d32_e256")
    arrays = asked.kernel.inputs(asked)
    outputs, _ = compute(device, bundle, asked, "auto", arrays)
    values = quants.dequantise(fmt, arrays["v"])[0, 0, 0].astype(np.float32)
    nearly = 1e-6 * float(np.abs(values).max())
    np.testing.assert_allclose(outputs["y"][0, 0, 0], values, rtol=1e-6, atol=nearly)


@pytest.mark.parametrize("path", ["subgroup", "portable"])
@pytest.mark.parametrize(
    ("case", "shares"),
    [
        ("f16/s1_h16_g1_q1_n128_d64_e256/mask=causal", 2),
        ("f16:y=q8_1/s2_h8_g4_q2_n250_d40_e256/mask=blocks", 2),
        ("f16/s1_h12_g1_q1_n256_d64_e256/mask=blocks,max_bias=8.0", 4),
        ("q8_0/s1_h20_g2_q1_n128_d256_e256/softcap=20.0", 2),
        ("q4_0/s1_h12_g1_q1_n128_d64_e256", 2),
        ("f32/s1_h16_g1_q1_n100_d5_e72/layout=strided,mask=causal", 1),
    ],
)
def test_workgroups_share_the_values_of_a_row(
    lavapipe: VulkanDevice, bundle: Bundle, case: str, shares: int, path: str
) -> None:
    """As on a GPU with units for more workgroups than there are rows."""
    facts = replace(lavapipe.facts, compute_units=132)
    verdict, planned = checked(lavapipe, bundle, f"flash_attn/{case}", path, facts)
    ((_, only),) = planned.passes
    rows = prod(problem(f"flash_attn/{case}").shape[dim] for dim in "shq")
    assert prod(only.groups) == rows * shares
    assert verdict.passed, verdict.reason
