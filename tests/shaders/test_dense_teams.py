"""Workgroups that read vectors once for many rows of dense weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.kernels.matrices.vectors import dense_teams
from vkbench_shaders.tuning.configurations import for_auto

H200 = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H200", uuid="00", vendor_id=0x10DE, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32, features=("subgroup_arithmetic",),
    compute_units=132, limits={"max_storage_range": 1 << 40, "max_workgroup_invocations": 1024},
)  # fmt: skip
FORMATS = ("f16", "bf16", "f32")


def rows_that_share(posed: Problem, variant: str) -> int:
    """Rows of y for each time that x is read: there are so many fewer workgroups than rows."""
    (launch,) = posed.kernel.variant(variant).launches(posed, H200)
    return posed.shape["m"] // (launch.groups[0] * launch.groups[1])


@pytest.mark.parametrize("fmt", FORMATS)
def test_one_reading_of_eight_vectors_is_for_sixteen_rows(fmt: str) -> None:
    """At m 4096, so that every other multiprocessor of an H200 has two workgroups at least."""
    posed = problem(f"mul_mat_vec/{fmt}/m4096_n8_k14336")
    assert rows_that_share(posed, "subgroup") == 4
    assert rows_that_share(posed, "teams") == 16
    first, *_ = posed.candidates(H200, dense_teams.VARIANT)
    assert rows_that_share(replace(posed, settings=first), "teams") == 16


def test_more_rows_share_where_there_are_workgroups_enough() -> None:
    for case, height in (("f16/m14336_n8", 32), ("f16/m14336_n2", 16), ("f32/m14336_n4", 16)):
        assert rows_that_share(problem(f"mul_mat_vec/{case}_k4096"), "teams") == height


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("f16/m4096_n1_k14336", "subgroup"),
        ("f16/m4096_n2_k14336", "subgroup"),
        ("f16/m4096_n3_k14336", "teams"),
        ("f32:x=f16/m4096_n8_k14336", "teams"),
        ("f16/m4096_n8_k14333", "subgroup"),  # rows begin anywhere
        ("f16/m1024_n8_k14336", "subgroup"),  # too few workgroups
        ("q4_0/m4096_n8_k14336", "int_dot"),
    ],
)
def test_several_vectors_of_a_large_matrix_are_first_estimated_by_teams(
    case: str, first: str
) -> None:
    posed = problem(f"mul_mat_vec/{case}")
    able = [each.name for each in for_auto(posed, H200) if each.name != "int_dot"]
    assert (able[0] if first != "int_dot" else "int_dot") == first


@pytest.mark.parametrize("subgroup", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("shape", ["m1_n1_k1", "m4096_n8_k14336", "m37_n17_k127"])
def test_every_setting_covers_all_rows_and_finds_room(shape: str, subgroup: int) -> None:
    device, posed = replace(H200, subgroup_size=subgroup), problem(f"mul_mat_vec/f16/{shape}")
    found = dense_teams.candidates(posed, device)
    assert found
    for settings in found:
        launch = dense_teams.launch(replace(posed, settings=settings), device)
        constants = launch.constants
        assert {name: constants[name.upper()] for name in ("team", "threads")} == {
            name: settings[name] for name in ("team", "threads")
        }
        assert constants["TEAM"] >= subgroup
        assert constants["FOUND"] <= 4096
        assert launch.groups[0] * launch.groups[1] * constants["HEIGHT"] >= posed.shape["m"]


def test_short_rows_have_small_teams() -> None:
    for k, team in ((8, 32), (256, 32), (512, 64), (14336, 64)):
        posed = problem(f"mul_mat_vec/f16/m4096_n8_k{k}")
        assert dense_teams.plan_of(posed, H200).team == team


def test_devices_without_such_subgroups_are_refused() -> None:
    posed = problem("mul_mat_vec/f16/m4096_n8_k4096")
    reason = dense_teams.VARIANT.refuses(posed, replace(H200, subgroup_size=256))
    assert reason == "has no room for teams of subgroups of 256 threads"


def test_narrow_weights_are_loaded_early_for_more_than_four_vectors() -> None:
    found = {}
    for case in ("f16/m4096_n4", "f16/m4096_n8", "f32/m4096_n4", "f32/m4096_n8"):
        posed = problem(f"mul_mat_vec/{case}_k14336")
        found[case] = posed.candidates(H200, dense_teams.VARIANT)[0]["ahead"]
    assert [*found.values()] == ["no", "yes", "yes", "yes"]
