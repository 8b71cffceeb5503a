"""Submissions in flight on CPU drivers: each part's order is kept, and nothing is left behind."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from planted_stretch import WRONG, planted_stretch, slow
from vkbench.job import Arm, Job, Mode, Outcome, Pair
from vkbench.result import Result, WrongArm
from vkbench_shaders.bundle import Bundle
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.device import Barrier, Fill, Part, Piece
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.timing.paired import execute_pair

CASES = ("launch_rate/u32/s65_n5", "overlap/u32/s7_n1025_r2")
KEPT = {"Pipeline", "PipelineLayout", "DescriptorSetLayout", "DeviceMemory", "Buffer"}


@pytest.fixture(params=["lavapipe", "swiftshader"])
def device(request: pytest.FixtureRequest) -> VulkanDevice:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, VulkanDevice)
    return found


@pytest.mark.parametrize("case", CASES)
def test_submissions_are_timed_and_right(device: VulkanDevice, bundle: Bundle, case: str) -> None:
    job = Job(id=1, token=1, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.05)
    open_before = Counter(device.live)
    result = execute(device, bundle, job)
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    hot, cold = result.timings
    assert (hot.metric, cold.metric) == ("hot", "cold")
    assert hot.seconds > 0
    assert cold.seconds > 0
    assert set(Counter(device.live) - open_before) <= KEPT


def pair(device: VulkanDevice, old: Bundle, new: Bundle, case: str, metric: str) -> Result:
    job = Job(
        id=1,
        token=1,
        case=case,
        mode=Mode.PAIRED,
        pair=Pair(old=Arm(name=""), metric=metric),
        measure_seconds=0.05,
        noise=0.0,
    )
    return execute_pair(device, old, new, job)


@pytest.mark.parametrize("metric", ["hot", "cold"])
@pytest.mark.parametrize(("case", "turns"), [(CASES[0], 50_000), (CASES[1], 3000)])
def test_the_slower_code_is_slower_on_either_side(
    device: VulkanDevice, case: str, turns: int, metric: str
) -> None:
    plain, slowed = planted_stretch(""), planted_stretch(slow(turns))
    open_before = Counter(device.live)
    for old, new, faster in ((plain, slowed, "old"), (slowed, plain, "new")):
        result = pair(device, old, new, case, metric)
        assert (result.outcome, result.reason) == (Outcome.PASSED, "")
        # of two samples, a busy machine makes one as slow as it likes
        first, second = sorted(result.timings, key=lambda timing: timing.low)
        assert first.side == faster
        assert second.low > 1.5 * first.low
    assert set(Counter(device.live) - open_before) <= KEPT


@pytest.mark.parametrize("case", CASES)
def test_wrong_code_is_blamed_in_pairs(device: VulkanDevice, case: str) -> None:
    plain, wrong = planted_stretch(""), planted_stretch(WRONG)
    for old, new, arm in ((plain, wrong, "new"), (wrong, plain, "old")):
        result = pair(device, old, new, case, "hot")
        assert result.outcome is Outcome.WRONG
        assert result.verdict
        assert result.verdict.wrong_arm is WrongArm(arm)
        assert result.timings == ()


@pytest.mark.parametrize("depth", [1, 3, 9])
def test_parts_are_read_back_after_their_steps_and_steps_follow_uploads(
    device: VulkanDevice, depth: int
) -> None:
    count, size = 9, 4096
    data = np.arange(count * size, dtype=np.uint32).view(np.uint8)[: count * size]
    with device.buffer(count * size) as kept, device.buffer(size) as wiped:
        parts: list[Part] = []
        for number in range(count):
            at = number * size
            piece = Piece(kept, at, size, data[at : at + size])
            back = [Piece(kept, at, size), Piece(wiped, 0, size)]
            parts.append(Part(steps=[Fill(wiped), Barrier()], uploads=[piece], reads=back))
        with device.flight(parts, depth) as flight:
            for _ in range(3):
                kept.fill(0xFFFFFFFF)
                wiped.fill(0xFFFFFFFF)
                [seconds] = flight.run()
                assert seconds > 0
                assert flight.seconds() == [seconds]
                found = flight.bytes_read()
                assert np.array_equal(np.concatenate(found[::2]), data)
                assert not any(piece.any() for piece in found[1::2])
    device.raise_messages()
