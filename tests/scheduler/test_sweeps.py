"""Sweeps: every configuration of each case, once a round, the estimated one first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UnknownName
from vkbench.job import Mode
from vkbench_scheduler.planning.selection import ALL, Selection
from vkbench_scheduler.planning.sweeps import Sweep, plan

FACTS = DeviceFacts(
    key="0" * 12, host="alpha", index=0, name="llvmpipe", uuid="00", vendor_id=0, device_id=0,
    type="cpu", memory_bytes=1 << 30, subgroup_size=8,
    features=("int_dot", "subgroup_arithmetic"),
    limits={"max_workgroup_invocations": 256, "max_storage_range": 1 << 27},
)  # fmt: skip
SUM = "sum/f32/b1_c1_h64_w4096"


def planned(sweep: Sweep, *cases: str, variant: str = ALL) -> list[str]:
    selection = Selection(cases=cases, mode=Mode.PERFORMANCE, variant=variant)
    jobs = plan(sweep, selection, [FACTS])
    assert {job.mode for job in jobs} == {Mode.PERFORMANCE}
    return [job.variant for job in jobs]


def test_rounds_go_through_all_configurations_and_begin_with_the_estimated_one() -> None:
    names = [f"portable:threads={threads}" for threads in (256, 128, 64)]
    assert planned(Sweep(rounds=2), SUM) == names * 2
    assert planned(Sweep(rounds=1, settings=2), SUM) == names[:2]


def test_a_sweep_of_one_variant_leaves_out_the_others() -> None:
    case = "mul_mat_vec/q4_0:x=q8_1/m64_n1_k4096"
    both = {name.partition(":")[0] for name in planned(Sweep(), case)}
    assert both == {"int_dot", "portable"}
    first, *others = planned(Sweep(rounds=1), case, variant="portable")
    assert first == "int_dot:threads=64"  # what `auto` takes
    assert {name.partition(":")[0] for name in others} == {"portable"}


def test_variants_without_settings_are_a_choice_too() -> None:
    assert planned(Sweep(rounds=1), "cumsum/f32/h4_w64") == ["subgroup", "portable"]


def test_what_leaves_no_choice_is_left_out() -> None:
    assert planned(Sweep(rounds=1, settings=1), SUM, "cumsum/f32/h4_w64") == [
        "subgroup",
        "portable",
    ]
    with pytest.raises(NothingToDo, match="nothing to tune"):
        planned(Sweep(), "copy/f32/n64")
    with pytest.raises(UnknownName, match="unknown kernel 'som'"):
        planned(Sweep(), "som/f32/n64")


def test_a_case_that_a_suite_names_for_gpus_and_for_cpus_is_tuned_on_both() -> None:
    asked = Selection(suite="tuning", kernels=("argmax",), mode=Mode.PERFORMANCE)
    small, large = "argmax/f32/b1_c1_h1_w8192", "argmax/f16/b1_c1_h8192_w8192"
    for kind, cases in (("cpu", {small}), ("discrete", {small, large})):
        jobs = plan(Sweep(rounds=1), asked, [replace(FACTS, type=kind)])
        assert {job.case for job in jobs} == cases, kind
