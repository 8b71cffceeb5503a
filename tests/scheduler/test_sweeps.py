"""Sweeps: every configuration of each case, once a round, the estimated one first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planted_runs import DEVICE
from vkbench.configuration import Configuration
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.job import Mode
from vkbench_db.upkeep.tuning import EVERY
from vkbench_scheduler.planning.selection import ALL, Selection
from vkbench_scheduler.planning.sweeps import Sweep, list_unkept_cases, plan
from vkbench_shaders.catalogue import problem

FACTS = replace(
    DEVICE,
    name="llvmpipe",
    type="cpu",
    features=("int_dot", "subgroup_arithmetic"),
    limits={"max_workgroup_invocations": 256, "max_storage_range": 1 << 27},
)
ABLE = replace(
    FACTS,
    features=(*FACTS.features, "coopmat", "device_scope", "subgroup_basic", "fp16", "storage16",
              "matrix_f16_f32", "matrix_f16_f16"),
    limits={**FACTS.limits, "max_shared_bytes": 49152}, subgroup_size=32,
)  # fmt: skip
SUM = "sum/f32/b1_c1_h64_w4096"
ROUNDED = "mul_mat_vec/q4_0/m64_n8_k4096"  # which auto never does via_q8_1
HALF, SINGLE = "mul_mat/f16/m256_n256_k256", "mul_mat/f32/m256_n256_k256"  # auto: coopmat of HALF


def planned(
    sweep: Sweep, *cases: str, variant: str = ALL, device: DeviceFacts = FACTS
) -> list[str]:
    selection = Selection(cases=cases, mode=Mode.PERFORMANCE, variant=variant)
    jobs = plan(sweep, selection, [device])
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


def test_a_variant_that_auto_never_takes_is_swept_alone() -> None:
    posed = problem(ROUNDED)
    best, *_ = posed.candidates(FACTS, posed.kernel.variant("via_q8_1"))
    for variant in ("via_q8_1", "VIA_Q8_1"):
        swept = planned(Sweep(rounds=2, settings=5), ROUNDED, variant=variant)
        assert swept[0] == Configuration(variant="via_q8_1", settings=best).name
        assert {name.partition(":")[0] for name in swept} == {"via_q8_1"}
        assert (len(swept), len(set(swept))) == (10, 5)
    assert "via_q8_1" not in {name.partition(":")[0] for name in planned(Sweep(), ROUNDED)}


def test_of_the_cases_of_a_variant_auto_may_take_it_for_some() -> None:
    swept = planned(Sweep(rounds=1), HALF, SINGLE, variant="coopmat", device=ABLE)
    assert {name.partition(":")[0] for name in swept} == {"coopmat"}
    selection = Selection(cases=(HALF, SINGLE), variant="coopmat")
    assert list_unkept_cases(selection) == [SINGLE]
    assert list_unkept_cases(replace(selection, cases=(SINGLE,))) == [EVERY]
    assert list_unkept_cases(replace(selection, cases=(HALF,))) == []
    assert list_unkept_cases(replace(selection, variant=ALL)) == []


@pytest.mark.parametrize(
    ("case", "variant", "why"),
    [
        (HALF, "coopmat_f16", "variant coopmat_f16 cannot run: needs coopmat, .* llvmpipe lacks"),
        (HALF, "coopmat", "variant coopmat cannot run: needs coopmat, .* llvmpipe lacks"),
        (ROUNDED, "int_dot", f"variant int_dot cannot run: is not for {ROUNDED}"),
    ],
)
def test_a_variant_that_cannot_run_says_why(case: str, variant: str, why: str) -> None:
    with pytest.raises(NothingToDo, match=f"there is nothing to tune: {why}"):
        planned(Sweep(), case, variant=variant)


def test_many_reasons_are_counted() -> None:
    cases = [f"mul_mat_vec/q4_0/m{64 + extra}_n8_k4096" for extra in range(5)]
    with pytest.raises(NothingToDo, match=r"m64_n8_k4096; is not for .*m65.*; and 3 more"):
        planned(Sweep(), *cases, variant="int_dot")


def test_only_a_variant_is_swept_and_no_configuration() -> None:
    with pytest.raises(UsageError, match="without settings: --variant via_q8_1"):
        planned(Sweep(), ROUNDED, variant="via_q8_1:threads=64")
    with pytest.raises(UnknownName, match="unknown variant 'via_q81'; did you mean 'via_q8_1'"):
        planned(Sweep(), ROUNDED, variant="via_q81")


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
    selection = Selection(suite="tuning", kernels=("argmax",), mode=Mode.PERFORMANCE)
    small, large = "argmax/f32/b1_c1_h1_w8192", "argmax/f16/b1_c1_h8192_w8192"
    for kind, cases in (("cpu", {small}), ("discrete", {small, large})):
        jobs = plan(Sweep(rounds=1), selection, [replace(FACTS, type=kind)])
        assert {job.case for job in jobs} == cases, kind
