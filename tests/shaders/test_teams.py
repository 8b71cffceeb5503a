"""Workgroups of teams: as many rows as fit what they leave, on devices of any subgroup size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Kernel, Launch, Problem
from vkbench_shaders.kernels.matrices.vectors.joined_vec import JOINED_VEC
from vkbench_shaders.kernels.matrices.vectors.teams import candidates, run

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H200", uuid="00", vendor_id=0x10DE, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32,
    features=("int_dot", "subgroup_arithmetic"),
    limits={"max_storage_range": 1 << 40, "max_workgroup_invocations": 1024},
)  # fmt: skip
SHAPES = ("m1_n1_k1", "m2048_n1_k2048", "m2048_n1_k8192", "m64_n8_k4096", "m37_n2_k127")


def launched(posed: Problem, device: DeviceFacts = DEVICE) -> Launch:
    (found,) = posed.kernel.variants_for(posed.types)[0].launches(posed, device)
    return found


def dense(kernel: str, shape: str) -> Problem:
    x = ":x=f32" if kernel.endswith("rms") else ""
    return problem(f"mul_mat_vec_{kernel}/f16{x}/{shape}")


@pytest.mark.parametrize("subgroup", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("kernel", ["rms", "add", "swiglu"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_setting_makes_whole_runs_of_rows(kernel: str, shape: str, subgroup: int) -> None:
    """Else squares of one run would come from two workgroups."""
    device, posed = replace(DEVICE, subgroup_size=subgroup), dense(kernel, shape)
    found = candidates(posed, device)
    assert found
    for settings in found:
        launch = launched(replace(posed, settings=settings), device)
        constants = launch.constants
        assert constants["HEIGHT"] % run(posed) == 0
        assert constants["TEAM"] >= subgroup
        assert constants["THREADS"] % constants["TEAM"] == 0
        assert constants["FOUND"] <= 4096
        rows = launch.groups[0] * launch.groups[1] * constants["HEIGHT"]
        assert posed.shape["m"] <= rows < posed.shape["m"] + constants["HEIGHT"]
        if constants["UNITS"] > 1:
            each = constants["TEAM"] * constants["UNITS"] * 8
            assert posed.shape["k"] % each == 0


def test_teams_of_numbers_take_one_turn_where_there_are_enough() -> None:
    """On an H200: four rows of weights a team, so that many workgroups share a small matrix."""
    for kernel, halves in (("rms", 1), ("add", 1), ("swiglu", 2)):
        posed = dense(kernel, "m2048_n1_k2048")
        constants = launched(posed).constants
        teams = constants["THREADS"] // constants["TEAM"]
        assert teams * 4 == constants["HEIGHT"] * halves
        assert posed.shape["m"] // constants["HEIGHT"] >= 132  # its multiprocessors


@pytest.mark.parametrize("kernel", JOINED_VEC, ids=lambda kernel: kernel.name)
def test_blocks_are_made_of_32_rows(kernel: Kernel) -> None:
    for posed in (Problem(kernel, case) for case in kernel.cases):
        height = launched(posed).constants["HEIGHT"]
        assert height == 32 or posed.types["x"] == "f32"
