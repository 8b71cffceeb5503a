"""Products via q8_1 whose workgroups round the vectors themselves, in several formats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from other_facts import checked
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.variants import choose
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.vulkan.device import VulkanDevice

INSIDE = "via_q8_1:rounding=inside"
FORMATS = ("q4_0", "q5_1", "q6_K", "iq1_m", "iq3_s", "nvfp4", "q1_0")
PLANES = ("q2_K", "tq2_0", "q2_0")  # whose units share bytes
CASES = (
    *((f"mul_mat_vec/{fmt}/m37_n1_k2048", INSIDE) for fmt in FORMATS),
    *((f"mul_mat_vec/{fmt}/m37_n3_k512", f"{INSIDE},units=2") for fmt in PLANES),
    *((f"mul_mat_vec/{fmt}/m67_n2_k512", f"{INSIDE},team=32,team_rows=1") for fmt in PLANES),
    *(("mul_mat_vec/q1_0/m37_n1_k512", f"{INSIDE},team_rows={rows}") for rows in (1, 2, 4)),
    ("mul_mat_vec/q4_0/m700_n1_k96", f"{INSIDE},units=1,team=32"),
    # columns for two workgroups, numbers at odd places
    ("mul_mat_vec/q5_K/m9_n9_k512/layout=strided", f"{INSIDE},threads=256"),
    ("mul_mat_vec/q2_0:x=f16/m67_n2_k256/layout=strided", f"{INSIDE},threads=256"),
)


@pytest.mark.parametrize(("case", "settings"), CASES)
def test_results_are_right(
    lavapipe: VulkanDevice, bundle: Bundle, case: str, settings: str
) -> None:
    verdict, planned = checked(lavapipe, bundle, case, settings, lavapipe.facts)
    assert len(planned.passes) == 1
    assert verdict.passed, verdict.reason


def test_devices_without_room_say_so(swiftshader: VulkanDevice, lavapipe: VulkanDevice) -> None:
    posed = problem("mul_mat_vec/q4_0/m37_n8_k14336")
    with pytest.raises(Unsupported, match="subgroups of 8 threads or more"):
        choose(posed, INSIDE, swiftshader.facts)
    with pytest.raises(Unsupported, match="needs int_dot"):
        choose(posed, INSIDE, replace(lavapipe.facts, features=("subgroup_arithmetic",)))
    little = {**lavapipe.facts.limits, "max_shared_bytes": 8192}
    with pytest.raises(Unsupported, match="more shared memory than the device's 8192 bytes"):
        choose(posed, INSIDE, replace(lavapipe.facts, limits=little))
