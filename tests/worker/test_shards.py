"""A case divided among NullDevices: parts put together, judged as one, timed side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from vkbench.errors import UsageError
from vkbench.job import Outcome
from vkbench.messages.wire import from_builtins, to_builtins
from vkbench.result import COPIES, HOT, Verdict, unpack_samples
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import packaged
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.runtime.null import NullBuffer, NullDevice, NullFlight, Shown, run_reference
from vkbench_worker.shards.division import division_of, shard_case
from vkbench_worker.shards.outcome import CHANGED, Sharded, outcome
from vkbench_worker.shards.shards import LEAST_ROUNDS, Shards, Spread

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
    case: str, count: int, devices: Sequence[NullDevice], stack: ExitStack, pieces: int = 1
) -> Shards:
    problem = catalogue.problem(case)
    prepared = prepare(problem)
    spread = Spread(devices=devices, count=count, pieces=pieces)
    return Shards(spread, packaged(), problem, prepared, "portable", stack)


def judged(case: str, count: int, devices: Sequence[NullDevice], stack: ExitStack) -> Verdict:
    return shards(case, count, devices, stack).judge_parts()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_parts_together_are_the_whole_result(case: str, count: int, stack: ExitStack) -> None:
    for devices in ([NullDevice()], [NullDevice() for _ in range(count)]):
        verdict = judged(case, count, devices, stack)
        assert (verdict.passed, verdict.reason) == (True, "")
        assert verdict.nmse is not None
        assert verdict.nmse < 1e-6


@pytest.mark.parametrize(("count", "pieces"), [(1, 3), (2, 3), (4, 2)])
@pytest.mark.parametrize("case", ["matmul/f16/b2_m12_n6_k5", "mul_mat/q4_0/m12_n6_k64"])
def test_pieces_together_are_the_whole_result(
    case: str, count: int, pieces: int, stack: ExitStack
) -> None:
    for devices in ([NullDevice()], [NullDevice() for _ in range(count)]):
        made = shards(case, count, devices, stack, pieces)
        verdict = made.judge_parts()
        assert (verdict.passed, verdict.reason) == (True, "")
        for moves in (False, True):
            assert made.time_shards(0.0, moves=moves)
            assert made.still_right()


def test_pieces_are_in_flight_together_and_share_what_is_kept(stack: ExitStack) -> None:
    device = Watched()
    made = shards("matmul/f16/b2_m12_n6_k5", 2, [device], stack, 3)
    a, b = 2 * 2 * 6 * 5, 2 * 4 * 5 * 2  # bytes, of a shard and of a piece
    assert (device.sizes.count(a), device.sizes.count(b)) == (2, 6)
    made.judge_parts()
    device.flights.clear()
    made.time_shards(0.0, moves=True)
    moved = [["b", "y"]] * 3  # of each part
    assert device.flights == [(3, moved), (3, moved)]
    device.flights.clear()
    made.time_shards(0.0, moves=False)
    assert device.flights == [(1, [[]]), (1, [[]])]


class Watched(NullDevice):
    """Notes how large each buffer and how deep each flight is, and what each of its parts moves."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.flights: list[tuple[int, list[list[str]]]] = []

    def buffer(self, size: int) -> NullBuffer:
        self.sizes.append(size)
        return super().buffer(size)

    def flight(self, parts: Any, depth: int) -> NullFlight:
        moved = [[*("b" for _ in part.uploads), *("y" for _ in part.reads)] for part in parts]
        self.flights.append((depth, moved))
        return super().flight(parts, depth)


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
        assert each.judge_parts().passed
        for moves in (False, True):
            assert (
                0.03 <= median(each.time_shards(0.01, moves=moves)) < 0.085
            )  # and not three times that
            assert each.still_right()


def test_what_changes_while_it_is_timed_is_noticed(stack: ExitStack) -> None:
    device = NullDevice()
    made = shards(SMALL, 2, [device], stack)
    assert made.judge_parts().passed
    device.function = off_by_one
    made.time_shards(0.0, moves=True)
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


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (SMALL, "n=7 has no 2 equal pieces"),
        ("flash_attn/f16/s2_h8_g4_q5_n67_d8_e8", "flash_attn has no pieces"),
    ],
)
def test_what_has_no_pieces_is_refused(case: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        division_of(catalogue.problem(case), 2, 2)


def test_a_wrong_piece_makes_the_result_wrong(stack: ExitStack) -> None:
    launches = 0

    def third(problem: Problem, shown: Shown) -> None:
        nonlocal launches
        launches += 1
        (off_by_one if launches % 4 == 3 else run_reference)(problem, shown)

    made = shards("matmul/f16/b2_m12_n6_k5", 2, [NullDevice(third)], stack, 2)
    verdict = made.judge_parts()
    assert not verdict.passed
    assert "NMSE" in verdict.reason


def test_shards_are_cases_of_the_catalogue() -> None:
    posed = catalogue.problem(CASES[0])
    assert shard_case(posed, 3, 7).name == "matmul/f16/b2_m4_n1_k5"
    assert shard_case(catalogue.problem(CASES[3]), 2).name == (
        "flash_attn/f16/s2_h4_g2_q5_n67_d8_e8/mask=causal"
    )


def told(devices: Sequence[NullDevice], stack: ExitStack, pieces: int = 1) -> Sharded:
    count = 2
    return outcome(shards(SMALL, count, devices, stack, pieces), "auto", 0.01)


def test_the_outcome_is_a_result_with_all_samples(stack: ExitStack) -> None:
    device = NullDevice()
    found = told([device], stack)
    result = found.result
    assert (result.outcome, result.case, result.device) == (
        Outcome.PASSED, SMALL, device.facts.key,
    )  # fmt: skip
    assert (result.variant, result.settings, found.requested) == (
        "portable:shards=2", "shards=2", "auto:shards=2",
    )  # fmt: skip
    assert told([device], stack, 7).result.variant == "portable:pieces=7,shards=2"
    assert result.bundle == packaged().sha
    assert result.kernel_sha
    assert result.environment == found.environment.hash == device.environment.hash
    assert [timing.metric for timing in result.timings] == [HOT, COPIES]
    for timing in result.timings:
        samples = unpack_samples(timing.samples)
        assert len(samples) == timing.count >= LEAST_ROUNDS
        assert timing.seconds == pytest.approx(median(samples))
        assert (timing.clock, timing.launches) == ("host", 1)
        assert timing.flops == catalogue.problem(SMALL).flops
        assert timing.warnings[0].startswith("simulated")


def test_other_devices_are_another_code_path(stack: ExitStack) -> None:
    one, two, three = (NullDevice(host=host) for host in ("a", "b", "c"))
    paths = [told(devices, stack).result.variant for devices in ([one], [one, two], [one, three])]
    assert len({*paths}) == 3
    assert paths[0] == "portable:shards=2"
    assert all(path.startswith("portable:devices=2-") for path in paths[1:])
    again = told([one, two], stack).result
    assert again.variant == paths[1]
    assert again.timings[0].warnings[0] == "side by side on NullDevice, NullDevice"


def test_the_environment_is_that_of_all_devices(stack: ExitStack) -> None:
    one, two = NullDevice(host="a"), NullDevice(host="b")
    same = told([one, two], stack)
    two.environment = replace(two.environment, driver_version="1")
    other = told([one, two], stack)
    assert same.environment == one.environment
    assert other.environment.extra == {"beside": two.environment.hash}
    assert other.result.environment == other.environment.hash != same.environment.hash


def test_a_wrong_result_has_no_timing(stack: ExitStack) -> None:
    found = told([NullDevice(), NullDevice(off_by_one)], stack)
    assert found.result.outcome is Outcome.WRONG
    assert "NMSE" in found.result.reason
    assert found.result.timings == ()


def test_what_becomes_wrong_while_it_is_timed_is_wrong(stack: ExitStack) -> None:
    judged = 2 * 2  # launches of two shards over two poisons

    def spoilt(problem: Problem, shown: Shown) -> None:
        nonlocal judged
        judged -= 1
        (run_reference if judged >= 0 else off_by_one)(problem, shown)

    found = told([NullDevice(spoilt)], stack)
    assert (found.result.outcome, found.result.reason) == (Outcome.WRONG, CHANGED)
    assert found.result.verdict
    assert not found.result.verdict.passed
    assert found.result.timings == ()


def test_an_outcome_travels(stack: ExitStack) -> None:
    found = told([NullDevice()], stack)
    assert from_builtins(json.loads(json.dumps(to_builtins(found))), Sharded) == found
