"""Pipelines require the size of subgroups where a driver has several and code relies on one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle, entry_key
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile.reflection import counts_on_subgroups, width
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.physical import Physical
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.runtime.vulkan.pipelines import Pipelines

# cases whose code computes right results only in full subgroups of the size that it reads
COUNTING = (
    ("cumsum/f32/h5_w1023", "subgroup"),
    ("flash_attn/f16/s1_h4_g2_q1_n113_d64_e64", "subgroup"),
    ("flash_attn_token/f16/s1_h8_g2_n300_d128", "subgroup"),
    ("gated_delta_net/f32/s3_t5_h4_g2_d64", "subgroup"),
    ("gated_delta_net_token/f32/s1_n3_h4_g2_d64_w4", "subgroup"),
    ("rwkv_wkv7/f32/s3_t5_h2_d128", "subgroup"),
    ("ssm_scan/f32/s1_t65_h2_g2_p80_d128", "subgroup"),
    ("ssm_scan_token/f32/s3_n7_h2_g1_p80_d128_w4", "subgroup"),
)
OTHERS = (  # of any size
    ("cumsum/f32/h5_w1023", "portable"),
    ("mul_mat_vec/f16/m61_n1_k1024", "subgroup"),
)
SUBGROUP, FULL = 8, 2  # lavapipe's; VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT


@pytest.fixture
def asked(
    lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[int, int]]]:
    """Size and flags that pipelines ask for on lavapipe, told to have subgroups of 4 to 8."""

    class Spy:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def vkCreateComputePipelines(self, *arguments: Any) -> Any:
            stage = arguments[3].stage
            kind = "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *"
            size = vk.ffi.cast(kind, stage.pNext).requiredSubgroupSize if stage.pNext else 0
            found.append((size, stage.flags))
            return real.vkCreateComputePipelines(*arguments)

    found: list[tuple[int, int]] = []
    real, made = vk.lib, Pipelines(lavapipe._make_pipeline, 0)
    monkeypatch.setattr(Physical, "numbers", lambda *_: [4, SUBGROUP, 1024, vk.COMPUTE_SHADER])
    monkeypatch.setattr(lavapipe, "_pipelines", made)
    monkeypatch.setattr(vk, "lib", Spy())
    yield found
    made.close()


def _is_right(device: VulkanDevice, bundle: Bundle, case: str, variant: str) -> bool:
    job = Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS, variant=variant)
    return execute(device, bundle, job).outcome is Outcome.PASSED


@pytest.mark.parametrize(("case", "variant"), COUNTING)
def test_code_that_counts_on_subgroups_requires_their_size(
    lavapipe: VulkanDevice, bundle: Bundle, asked: list[tuple[int, int]], case: str, variant: str
) -> None:
    assert _is_right(lavapipe, bundle, case, variant)
    assert (SUBGROUP, FULL) in asked


@pytest.mark.parametrize(("case", "variant"), OTHERS)
def test_other_code_requires_nothing(
    lavapipe: VulkanDevice, bundle: Bundle, asked: list[tuple[int, int]], case: str, variant: str
) -> None:
    assert _is_right(lavapipe, bundle, case, variant)
    assert {*asked} == {(0, 0)}


@pytest.mark.parametrize("numbers", [(8, 8, 1024, 0x20), (4, 8, 1024, 0), (4, 8, 16, 0x20)])
def test_devices_that_cannot_be_asked_are_not(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    asked: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    numbers: tuple[int, ...],
) -> None:
    """One size, not in compute shaders, or too few subgroups for the largest workgroup."""
    monkeypatch.setattr(Physical, "numbers", lambda *_: list(numbers))
    assert _is_right(lavapipe, bundle, *COUNTING[0])
    assert {*asked} == {(0, 0)}


def test_the_width_of_workgroups_is_read_from_code(bundle: Bundle) -> None:
    posed = problem("cumsum/f32/h5_w1023")
    variant = posed.kernel.variant("subgroup")
    code = bundle.code(entry_key(variant.stages[0], posed.types))
    (threads,) = (
        each.id
        for each in bundle.interface(entry_key(variant.stages[0], posed.types)).constants
        if each.name == "THREADS"
    )
    assert counts_on_subgroups(code)
    assert width(code, {threads: 64}) == 64
    assert width(code, {}) == 256
