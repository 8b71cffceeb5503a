"""Pairs of kernels whose launches are submissions of their own, on the NullDevice."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from planted_clock import Clock
from planted_pair import Pair, SpoiltFlight, after, built, off_by_one, taking
from vkbench import job
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result, WrongArm
from vkbench_worker.runtime.null import Function, NullFlight, run_reference
from vkbench_worker.timing.paired import execute_pair
from vkbench_worker.timing.visits import CPU_ROUNDS

LAUNCH_RATE, OVERLAP = "launch_rate/u32/s65_n5", "overlap/u32/s7_n1025_r2"
BOTH = pytest.mark.parametrize("case", [LAUNCH_RATE, OVERLAP])
METRICS = pytest.mark.parametrize("metric", ["hot", "cold"])
ARMS = pytest.mark.parametrize("arm", ["old", "new"])


HOT_PAIR = job.Pair(old=job.Arm(name=""), metric="hot")


class FlownPair(Pair):
    """A device with timelines, which may do wrong what an arm has in flight."""

    lost = ""  # arm whose last part does not fly
    spoilt = ""  # arm that reads back what is wrong

    def __init__(self, old: Function = run_reference, new: Function = run_reference) -> None:
        super().__init__(old, new)
        self.facts = replace(self.facts, features=("timeline",))
        self.flights: list[tuple[str, int]] = []  # arms and depths, in the order they were made

    def flight(self, parts: Any, depth: int) -> NullFlight:
        arm = parts[0].steps[0].pipeline.code.decode()
        self.flights.append((arm, depth))
        kept = parts[:-1] if arm == self.lost else parts
        return SpoiltFlight(self, kept) if arm == self.spoilt else NullFlight(self, kept)


def compared(device: FlownPair, case: str, **changes: Any) -> Result:
    values: dict[str, Any] = {"id": 1, "token": 1, "case": case, "mode": Mode.PAIRED}
    values |= {"pair": HOT_PAIR, "measure_seconds": 0.05, "noise": 0.0}
    return execute_pair(device, built(case, b"old"), built(case, b"new"), Job(**values | changes))


@BOTH
@pytest.mark.parametrize(("metric", "depth"), [("hot", 64), ("cold", 1)])
def test_both_arms_fly_as_deep_as_the_metric_says(case: str, metric: str, depth: int) -> None:
    device = FlownPair()
    result = compared(device, case, pair=replace(HOT_PAIR, metric=metric))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert device.flights == [("old", depth), ("new", depth)]
    assert [(timing.metric, timing.side) for timing in result.timings] == [
        (metric, "old"),
        (metric, "new"),
    ]
    assert {timing.clock for timing in result.timings} == {"host"}
    assert {timing.launches for timing in result.timings} == {1}
    assert result.verdict
    assert result.verdict.passed


@pytest.mark.parametrize(("one", "other"), [("old", "new"), ("new", "old")])
def test_visits_are_one_other_other_one(one: str, other: str, clock: Clock) -> None:
    device = FlownPair(taking(clock, 1e-4), taking(clock, 1e-4))
    result = compared(device, OVERLAP, pair=replace(HOT_PAIR, new_first=one == "new"))
    assert result.outcome is Outcome.PASSED, result.reason
    visits = [arm for arm, _ in groupby(device.ran)]
    assert visits == [one, other, one, *[other, one] * (CPU_ROUNDS + 1)]  # judged, warm, visited


@METRICS
def test_the_slower_arm_is_slower_on_either_side(metric: str, clock: Clock) -> None:
    for old, new in ((1e-3, 2e-3), (2e-3, 1e-3)):
        device = FlownPair(taking(clock, old), taking(clock, new))
        first, second = compared(device, LAUNCH_RATE, pair=replace(HOT_PAIR, metric=metric)).timings
        assert (first.seconds, second.seconds) == pytest.approx((old, new))


@BOTH
@METRICS
@ARMS
def test_an_arm_that_is_wrong_in_flight_is_blamed(case: str, metric: str, arm: str) -> None:
    spoilt, losing = FlownPair(), FlownPair()
    spoilt.functions[arm.encode()] = after(3, off_by_one)  # right where it is judged and warmed
    losing.lost = arm
    for device in (spoilt, losing):
        result = compared(device, case, pair=replace(HOT_PAIR, metric=metric))
        assert result.outcome is Outcome.WRONG
        assert result.verdict
        assert result.verdict.wrong_arm is WrongArm(arm)
        assert "changed while it was timed" in result.reason
        assert result.timings == ()


@METRICS
@ARMS
def test_an_arm_that_reads_back_what_is_wrong_is_blamed(metric: str, arm: str) -> None:
    device = FlownPair()
    device.spoilt = arm
    result = compared(device, OVERLAP, pair=replace(HOT_PAIR, metric=metric))
    assert result.outcome is Outcome.WRONG
    assert result.verdict
    assert result.verdict.wrong_arm is WrongArm(arm)
    assert result.reason == (
        f"{arm}: 7 bytes that were read back are not those of the checked launch"
    )
    assert result.timings == ()


@ARMS
def test_an_arm_that_is_wrong_before_is_not_timed(arm: str) -> None:
    device = FlownPair()
    device.functions[arm.encode()] = off_by_one
    result = compared(device, LAUNCH_RATE)
    assert result.verdict
    assert result.verdict.wrong_arm is WrongArm(arm)
    assert device.flights == []


def test_buffers_are_given_back() -> None:
    device = FlownPair()
    compared(device, OVERLAP)
    assert device.used_bytes == 0
