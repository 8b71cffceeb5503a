"""Pairs on a real driver: equal code is equal, slower code slower, on whichever side it stands."""

from __future__ import annotations

from statistics import median

import pytest

from planted_add import SLOW, planted_add
from vkbench.job import Arm, Job, Mode, Outcome, Pair
from vkbench.result import Result, WrongArm
from vkbench_shaders.bundle import Bundle
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.timing.paired import execute_pair

CASE = "add/f32/b1_c1_h300_w400"


def pair(device: VulkanDevice, old: Bundle, new: Bundle, metric: str = "hot") -> Result:
    job = Job(
        id=1,
        token=1,
        case=CASE,
        mode=Mode.PAIRED,
        pair=Pair(old=Arm(name=""), metric=metric),
        measure_seconds=0.1,
        noise=0.0,
    )
    return execute_pair(device, old, new, job)


def ratio(device: VulkanDevice, old: Bundle, new: Bundle, metric: str = "hot") -> float:
    result = pair(device, old, new, metric)
    assert result.outcome is Outcome.PASSED, result.reason
    first, second = result.timings
    assert first.launches == second.launches
    return second.seconds / first.seconds


@pytest.mark.parametrize("metric", ["hot", "cold"])
def test_equal_code_takes_equal_time(lavapipe: VulkanDevice, metric: str) -> None:
    same, again = planted_add(""), planted_add("// the same, of another hash\n")
    ratios: list[float] = []
    while not (ratios and 0.7 < median(ratios) < 1.4) and len(ratios) < 12:  # a busy machine's vary
        ratios += [
            ratio(lavapipe, *order, metric)
            for order in ((same, again), (again, same))
            for _ in range(2)
        ]
    assert 0.7 < median(ratios) < 1.4, ratios


@pytest.mark.parametrize("metric", ["hot", "cold"])
def test_the_slower_code_is_slower_on_either_side(lavapipe: VulkanDevice, metric: str) -> None:
    plain, slow = planted_add(""), planted_add(SLOW)
    for old, new, sign in ((plain, slow, 1), (slow, plain, -1)):
        ratios: list[float] = []
        while not (ratios and median(ratios) > 1.5) and len(ratios) < 6:  # a busy machine's vary
            ratios.append(ratio(lavapipe, old, new, metric) ** sign)
        assert median(ratios) > 1.5, ratios


def test_fast_and_wrong_is_not_faster(lavapipe: VulkanDevice) -> None:
    slow, lazy = planted_add(SLOW), planted_add("sum = 0;")
    for old, new, arm in ((slow, lazy, "new"), (lazy, slow, "old")):
        result = pair(lavapipe, old, new)
        assert result.outcome is Outcome.WRONG
        assert result.verdict
        assert result.verdict.wrong_arm is WrongArm(arm)
        assert result.timings == ()
