"""Where products via q8_1 round their vectors: inside workgroups, or in a launch before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planted_devices import hopper
from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Launch, Settings, Variant

DEVICE = hopper("int_dot", "subgroup_arithmetic", "subgroup_shuffle")
WORKGROUP = "max_workgroup_invocations"
LARGE = "mul_mat_vec/q4_0/m4096_n1_k14336"


def via_q8_1() -> Variant:
    return kernel_named("mul_mat_vec").variant("via_q8_1")


def launched(case: str, device: DeviceFacts = DEVICE, **settings: str | int) -> tuple[Launch, ...]:
    return via_q8_1().launches(replace(problem(case), settings=settings), device)


def candidates(case: str) -> list[Settings]:
    return problem(case).candidates(DEVICE, via_q8_1())


@pytest.mark.parametrize(
    ("case", "threads", "team", "units", "rows", "height"),
    [
        (LARGE, 1024, 64, 1, 2, 32),
        ("mul_mat_vec/q4_K/m4096_n1_k14336", 1024, 32, 2, 1, 32),
        ("mul_mat_vec/tq2_0/m4096_n2_k14336", 1024, 32, 2, 1, 32),
        ("mul_mat_vec/q8_0/m4096_n8_k4096", 1024, 64, 1, 2, 32),
        ("mul_mat_vec/q8_0/m14336_n1_k4096", 1024, 64, 1, 2, 128),  # four times 32 rows
        # fewer rows, for workgroups on all multiprocessors
        ("mul_mat_vec/q8_0/m2048_n1_k8192", 1024, 128, 1, 2, 16),
        ("mul_mat_vec/q8_0/m1024_n1_k4096", 512, 128, 1, 2, 8),
        ("mul_mat_vec/q4_K/m1024_n4_k4096", 512, 64, 2, 1, 8),
        # smaller teams, for threads that all have blocks
        ("mul_mat_vec/q8_0/m4096_n1_k1024", 512, 32, 1, 2, 32),
        ("mul_mat_vec/q8_0/m512_n1_k256", 128, 32, 1, 2, 8),
    ],
)
def test_one_launch_is_for_many_rows(
    case: str, threads: int, team: int, units: int, rows: int, height: int
) -> None:
    (only,) = launched(case)
    expected = {"THREADS": threads, "TEAM": team, "UNITS": units, "TEAM_ROWS": rows}
    assert only.constants.items() >= {**expected, "HEIGHT": height}.items()


@pytest.mark.parametrize(("most", "rows"), [(512, 2), (256, 4)])
def test_smaller_workgroups_have_as_many_rows(most: int, rows: int) -> None:
    (only,) = launched(LARGE, replace(DEVICE, limits={**DEVICE.limits, WORKGROUP: most}))
    expected = {"THREADS": most, "TEAM": 32, "TEAM_ROWS": rows, "HEIGHT": 32}
    assert only.constants.items() >= expected.items()


@pytest.mark.parametrize(
    "case",
    [
        "mul_mat_vec/q4_0/m4096_n1_k65536",  # no room
        "mul_mat_vec/q4_0/m4096_n4_k14336",
        "mul_mat_vec/q4_0/m4096_n9_k4096",  # columns of two workgroups
    ],
)
def test_other_products_have_a_launch_before(case: str) -> None:
    assert [launch.entry for launch in launched(case)] == ["round_x_by_lanes", "mul_mat_vec_bytes"]


def test_other_devices_have_a_launch_before() -> None:
    assert len(launched(LARGE, replace(DEVICE, compute_units=0))) == 2
    assert len(launched(LARGE, replace(DEVICE, type="cpu"))) == 2
    assert len(launched(LARGE, replace(DEVICE, subgroup_size=4))) == 2
    assert len(launched(LARGE, replace(DEVICE, limits={**DEVICE.limits, WORKGROUP: 128}))) == 2
    for lacking in DEVICE.features:
        others = tuple(feature for feature in DEVICE.features if feature != lacking)
        assert len(launched(LARGE, replace(DEVICE, features=others))) == 2


def test_lanes_that_shuffle_round_a_block() -> None:
    blocks = 14336 // 32
    by_lanes, _ = launched(LARGE, rounding="before")
    assert by_lanes.entry == "round_x_by_lanes"
    assert by_lanes.groups[0] * by_lanes.constants["THREADS"] == blocks * 4
    others = replace(DEVICE, features=("int_dot", "subgroup_arithmetic"))
    by_threads, _ = launched(LARGE, others, rounding="before")
    assert by_threads.entry == "round_x"
    assert by_threads.groups[0] * by_threads.constants["THREADS"] == blocks


def test_settings_choose() -> None:
    assert len(launched(LARGE, rounding="before")) == 2
    assert len(launched(LARGE, threads=128)) == 2  # which one launch does not have
    assert launched(LARGE, team_rows=4, threads=512)[0].constants["TEAM_ROWS"] == 4
    assert len(launched("mul_mat_vec/q4_0/m4096_n4_k4096", rounding="inside", threads=256)) == 1


def test_short_sweeps_try_both() -> None:
    for case, first in ((LARGE, "inside"), ("mul_mat_vec/q4_0/m4096_n9_k512", "before")):
        found = [each["rounding"] for each in candidates(case)[:4]]
        assert found[0] == first
        assert sorted(found) == ["before", "before", "inside", "inside"]


@pytest.mark.parametrize(
    ("case", "units"),
    [("q4_K/m4096_n1", 2), ("q4_K/m4096_n4", 2), ("q4_K/m4096_n5", 1), ("q2_0/m4096_n4", 1)],
)
def test_few_columns_of_q4_k_take_two_blocks(case: str, units: int) -> None:
    rounding, product = launched(f"mul_mat_vec/{case}_k14336", rounding="before")
    assert rounding.constants["UNITS"] == product.constants["UNITS"] == units
