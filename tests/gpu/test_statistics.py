"""What a compiler for GPUs says of kernels, without a GPU: RADV compiles for one that is not there.

Such a device has no fences, so that nothing can be submitted to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vkbench.settings import Settings
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.instance import Instance
from vkbench_worker.runtime.discovery.physical import FoundDevice, Physical, candidates
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.statistics import BINARY, ask_driver, measure_binaries

RADV = Path("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json")
CASE = "mul_mat_vec/q4_0/m64_n1_k1024"


@pytest.fixture
def instance(gpu_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    if not RADV.exists():
        pytest.skip(f"{RADV} is not there: mesa-vulkan-drivers brings it on x86")
    create = Logical.create

    def create_without_fences(logical: Logical, kind: str, info: Any) -> Any:
        return vk.ffi.NULL if kind == "Fence" else create(logical, kind, info)

    monkeypatch.setattr(Logical, "create", create_without_fences)
    monkeypatch.setenv("VK_DRIVER_FILES", str(RADV))
    monkeypatch.setenv("RADV_FORCE_FAMILY", "navi21")
    with Instance(gpu_settings) as made:
        yield made


def test_a_compiler_for_gpus_names_registers_spills_and_sizes(
    instance: Instance, bundle: Bundle
) -> None:
    [card] = candidates(instance, "here")
    chosen = choose(pose_case(bundle, CASE), "auto", card.facts)
    programs = [program for program, _ in plan(bundle, chosen, card.facts).passes]
    logical = Logical(card.physical, card.facts)
    binaries = measure_binaries(logical, programs, ())
    logical.close()
    assert [(size.name, size.unit, size.spread) for size in binaries] == [(BINARY, "bytes", None)]
    by_name = ask(instance, card, programs)
    assert by_name["VGPRs"] > 0
    assert by_name["Spilled VGPRs"] >= 0
    assert 0 < by_name["Code size"] < (binaries[0].value or 0)
    assert not [name for name in by_name if name.lower().endswith("hash")]
    assert {"1: VGPRs", "2: VGPRs"} <= ask(instance, card, programs * 2).keys()


def ask(instance: Instance, card: FoundDevice, programs: list[Program]) -> dict[str, float]:
    """The driver's statistics by name, of a device that is asked for the first time."""
    physical = Physical(instance, card.physical.handle, card.physical.index)
    statistics = ask_driver(physical, card.facts, programs, ())
    return {statistic.name: statistic.value or 0 for statistic in statistics}
