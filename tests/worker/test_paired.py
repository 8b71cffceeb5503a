"""Pairs on the NullDevice: whose launches come when, and whose fault a wrong output is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from planted_clock import Clock
from planted_pair import Pair, after, built, off_by_one, taking
from vkbench import job
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result, WrongArm, unpack_samples
from vkbench_shaders.bundle import Bundle, manifest_text
from vkbench_shaders.kernel import Problem
from vkbench_worker.runtime.null import Function, NullDevice, Shown, run_reference
from vkbench_worker.timing.paired import execute_pair
from vkbench_worker.timing.visits import CPU_ROUNDS

CASE = "add/f32/b1_c1_h17_w129"


OLD, NEW = built(CASE, b"old"), built(CASE, b"new")
HOT_PAIR = job.Pair(old=job.Arm(name=OLD.sha), metric="hot")


def compared(device: NullDevice, **changes: Any) -> Result:
    values: dict[str, Any] = {
        "id": 4,
        "token": 2,
        "case": CASE,
        "mode": Mode.PAIRED,
        "bundle": NEW.sha,
    }
    values |= {"pair": HOT_PAIR, "measure_seconds": 0.08, "noise": 0.0}
    return execute_pair(device, OLD, NEW, Job(**values | changes))


def nothing(posed: Problem, shown: Shown) -> None:
    """Leaves the output as it is."""


@pytest.mark.parametrize("metric", ["hot", "cold"])
@pytest.mark.parametrize(("one", "other"), [("old", "new"), ("new", "old")])
def test_visits_are_one_other_other_one(metric: str, one: str, other: str) -> None:
    device = Pair()
    device.clock = "gpu"
    result = compared(device, pair=replace(HOT_PAIR, metric=metric, new_first=one == "new"))
    assert result.outcome is Outcome.PASSED, result.reason
    assert device.ran[:4] == [one, one, other, other]  # judged, each over two poisons
    visits = [arm for arm, _ in groupby(device.ran[4:])]
    assert visits[:2] == [one, other]  # both are warm before the first visit
    assert visits[2:] == [one, *[other, one] * (len(visits[2:]) // 2)]
    assert len(visits) == 3 + 2 * CPU_ROUNDS
    assert [(timing.metric, timing.side) for timing in result.timings] == [
        (metric, "old"),
        (metric, "new"),
    ]
    assert (result.bundle, result.kernel_sha) == (NEW.sha, hashlib.sha256(b"new").hexdigest())
    assert result.verdict
    assert result.verdict.passed


def test_a_gpu_goes_through_the_order_once_and_so_do_long_launches(clock: Clock) -> None:
    gpu = Pair(taking(clock, 1e-3), taking(clock, 1e-3))
    gpu.facts = replace(gpu.facts, type="discrete")
    long = Pair(taking(clock, 0.02), taking(clock, 0.02))
    for device in (gpu, long):
        assert compared(device).outcome is Outcome.PASSED
        assert [arm for arm, _ in groupby(device.ran[4:])][-3:] == ["old", "new", "old"]
        assert len([arm for arm, _ in groupby(device.ran[4:])]) == (5 if device is gpu else 3)


def test_both_arms_put_as_many_launches_into_a_sample(clock: Clock) -> None:
    result = compared(Pair(taking(clock, 200e-6), taking(clock, 1200e-6)))
    old, new = result.timings
    assert old.launches == new.launches > 4
    assert unpack_samples(old.samples) == pytest.approx([200e-6] * old.count)
    assert unpack_samples(new.samples) == pytest.approx([1200e-6] * new.count)
    for timing in result.timings:
        assert timing.count == len(unpack_samples(timing.samples))
        assert timing.count % 2 == 0  # as many of the first visit as of the second
        assert timing.low <= timing.seconds <= timing.high


def test_the_time_bound_is_of_each_arm(clock: Clock) -> None:
    started = clock.now
    result = compared(Pair(taking(clock, 2e-3), taking(clock, 2e-3)), measure_seconds=0.2)
    assert 0.4 < clock.now - started < 0.8
    for timing in result.timings:
        assert 0.1 < timing.count * timing.launches * 2e-3 < 0.3


@pytest.mark.parametrize(
    ("old", "new", "arms"),
    [
        (run_reference, off_by_one, ["new"]),
        (off_by_one, run_reference, ["old"]),
        (nothing, off_by_one, ["old", "new"]),
    ],
)
def test_a_wrong_arm_is_blamed_and_nothing_is_timed(
    old: Function, new: Function, arms: list[str]
) -> None:
    device = Pair(old, new)
    result = compared(device)
    assert result.outcome is Outcome.WRONG
    assert result.timings == ()
    assert result.verdict
    assert result.verdict.wrong_arm is WrongArm.of(arms)
    assert [arm for arm in ("old", "new") if f"{arm}: " in result.reason] == arms
    assert not result.verdict.passed
    assert len(device.ran) == 4


@pytest.mark.parametrize("metric", ["hot", "cold"])
@pytest.mark.parametrize("arm", ["old", "new"])
@pytest.mark.parametrize("spoilt", [off_by_one, nothing])
def test_an_arm_that_is_wrong_while_it_is_timed_is_blamed(
    metric: str, arm: str, spoilt: Function
) -> None:
    result = compared(Pair(**{arm: after(5, spoilt)}), pair=replace(HOT_PAIR, metric=metric))
    assert result.outcome is Outcome.WRONG
    assert result.verdict
    assert result.verdict.wrong_arm is WrongArm(arm)
    assert result.reason.startswith(f"{arm}: ")
    assert "changed while it was timed" in result.reason
    assert result.timings == ()


def test_what_is_changed_in_place_is_restored_for_each_visit() -> None:
    case = "set_rows/f32/m32_n1_k8"
    bundle = built(case, b"old"), built(case, b"new")
    job = Job(
        id=1,
        token=1,
        case=case,
        mode=Mode.PAIRED,
        pair=replace(HOT_PAIR, metric="cold"),
        measure_seconds=0.02,
    )
    result = execute_pair(Pair(), *bundle, job)
    assert result.outcome is Outcome.PASSED, result.reason


def test_code_that_one_of_them_lacks_is_a_skip() -> None:
    entries = tuple(entry for entry in OLD.manifest.entries if entry.module != "binary")
    text = manifest_text("1", "0", entries, OLD.manifest.interfaces)
    bare = Bundle(text=text, blobs=OLD.blobs)
    job = Job(id=1, token=1, case=CASE, mode=Mode.PAIRED, pair=HOT_PAIR)
    result = execute_pair(Pair(), bare, NEW, job)
    assert result.outcome is Outcome.SKIPPED
    assert result.reason.startswith("old: unknown kernel of bundle")


def test_the_slower_arm_is_slower_on_either_side(clock: Clock) -> None:
    for old, new, faster in ((1e-3, 2e-3, "old"), (2e-3, 1e-3, "new")):
        timings = compared(Pair(taking(clock, old), taking(clock, new))).timings
        assert min(timings, key=lambda timing: timing.seconds).side == faster


def test_buffers_are_given_back() -> None:
    device = Pair()
    compared(device, pair=replace(HOT_PAIR, metric="cold"))
    assert device.used_bytes == 0
