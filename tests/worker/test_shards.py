"""A case divided among NullDevices: parts put together, judged as one, timed side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from vkbench.errors import UsageError
from vkbench.result import Verdict
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import packaged
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.runtime.null import NullBuffer, NullDevice, Shown, run_reference
from vkbench_worker.runtime.program import Program
from vkbench_worker.shards.division import division_of, shard_case
from vkbench_worker.shards.shards import Shards

CASES = (
    "matmul/f16/b2_m12_n7_k5",
    "mul_mat/f16/m12_n29_k37",
    "mul_mat/q4_0/m12_n3_k64",
    "flash_attn/f16/s2_h8_g4_q5_n67_d8_e8/mask=causal",
    "flash_attn/f16/s1_h4_g4_q5_n17_d8_e8/sinks=yes",
)
SMALL = CASES[0]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def shards(
    case: str, count: int, devices: Sequence[NullDevice], stack: ExitStack
) -> Shards[Program, NullBuffer]:
    problem = catalogue.problem(case)
    return Shards(devices, count, packaged(), problem, prepare(problem), "portable", stack)


def judged(case: str, count: int, devices: Sequence[NullDevice], stack: ExitStack) -> Verdict:
    return shards(case, count, devices, stack).judged()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_parts_together_are_the_whole_result(case: str, count: int, stack: ExitStack) -> None:
    for devices in ([NullDevice()], [NullDevice() for _ in range(count)]):
        verdict = judged(case, count, devices, stack)
        assert (verdict.passed, verdict.reason) == (True, "")
        assert verdict.nmse is not None
        assert verdict.nmse < 1e-6


def off_by_one(problem: Problem, shown: Shown) -> None:
    run_reference(problem, shown)
    y = problem.layout("y")
    shown["y"][: y.storage] += 1


def nothing(problem: Problem, shown: Shown) -> None:
    """Leave the outputs as they are."""


@pytest.mark.parametrize(("fault", "reason"), [(off_by_one, "NMSE"), (nothing, "never written")])
def test_one_wrong_shard_makes_the_result_wrong(
    fault: object, reason: str, stack: ExitStack
) -> None:
    devices = [NullDevice(), NullDevice(fault)]  # type: ignore[arg-type]
    verdict = judged(SMALL, 2, devices, stack)
    assert not verdict.passed
    assert reason.casefold() in verdict.reason.casefold()


def slowly(problem: Problem, shown: Shown) -> None:
    time.sleep(0.03)
    run_reference(problem, shown)


def test_devices_of_their_own_work_at_once_and_one_device_simulates(stack: ExitStack) -> None:
    beside = shards(SMALL, 3, [NullDevice(slowly) for _ in range(3)], stack)
    simulated = shards(SMALL, 3, [NullDevice(slowly)], stack)
    assert (beside.is_simulated, simulated.is_simulated) == (False, True)
    for each in (beside, simulated):
        assert each.judged().passed
        for moves in (False, True):
            assert 0.03 <= each.timed(0.01, moves=moves) < 0.085  # and not three times that
            assert each.still_right()


def test_what_changes_while_it_is_timed_is_noticed(stack: ExitStack) -> None:
    device = NullDevice()
    made = shards(SMALL, 2, [device], stack)
    assert made.judged().passed
    device.function = off_by_one
    made.timed(0.0, moves=True)
    assert not made.still_right()


@pytest.mark.parametrize(
    ("case", "count", "reason"),
    [
        ("copy/f32/n31", 1, "copy cannot be divided; these can: matmul, mul_mat, flash_attn"),
        (SMALL, 5, "m=12 has no 5 equal parts"),
        ("flash_attn/f16/s1_h8_g2_q1_n5_d8_e8", 4, "g=2 has no 4 equal parts"),
        ("matmul/f16/b1_m4_n4_k4/layout=transposed_b", 2, "shards need layout=contiguous"),
        ("flash_attn/f16/s1_h4_g4_q5_n17_d8_e8/mask=causal,max_bias=8.0", 2, "max_bias=0.0"),
    ],
)
def test_what_cannot_be_divided_is_refused(case: str, count: int, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        division_of(catalogue.problem(case), count)


def test_shards_are_cases_of_the_catalogue() -> None:
    assert shard_case(catalogue.problem(CASES[3]), 2).name == (
        "flash_attn/f16/s2_h4_g2_q5_n67_d8_e8/mask=causal"
    )
