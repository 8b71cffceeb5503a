"""Warm-up on a simulated GPU, whose clock climbs under load and drops where there is none."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from vkbench.device import NVIDIA
from vkbench.result import Timing
from vkbench_shaders.catalogue import problem
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.phases import recorded
from vkbench_worker.runtime.load import NVIDIA_KEEPS_SECONDS, WARM_SECONDS, Load
from vkbench_worker.runtime.null import NullBuffer, NullDevice
from vkbench_worker.runtime.program import Dispatch, Program
from vkbench_worker.timing.measure import LaunchWork, SampleBounds, measure_hot

POSED = problem("copy/f32/n1000")
PROGRAM = Program(code=b"", sha="", bindings=(0, 1), push_bytes=0, constants=(), problem=POSED)
LAUNCH = PackedLaunch(groups=(1, 1, 1), push=b"", constants=())
WORK = LaunchWork(passes=[(PROGRAM, LAUNCH)], bytes_moved=8000, flops=5)
BOUNDS = SampleBounds(seconds=1.0, noise=0.005)
WARM, COLD = 100e-6, 550e-6  # seconds of a launch
CLIMB = 0.35  # seconds of load
ON_THE_WAY = 0.6  # of the climb: until then the clock does not move


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Climbing(NullDevice):
    """A GPU that was idle until it is given work: each launch takes the clock its time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.facts = replace(self.facts, type="discrete")
        self.clock = "gpu"
        self.load = Load(NVIDIA)
        self._now = clock
        self._loaded = 0.0
        self._ended = clock.now

    def dispatch(self, step: Dispatch[Program, NullBuffer]) -> None:
        if self._now.now - self._ended > NVIDIA_KEEPS_SECONDS:
            self._loaded = 0.0
        seconds = self._launch_seconds()
        self._now.now += seconds
        self._loaded += seconds
        self._ended = self._now.now

    def _launch_seconds(self) -> float:
        climbed = min(1.0, self._loaded / CLIMB)
        share = max(0.0, (climbed - ON_THE_WAY) / (1 - ON_THE_WAY))
        return 1 / ((1 - share) / COLD + share / WARM)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


def hot(device: Climbing) -> tuple[Timing, float]:
    """A hot timing, and the seconds of its warm-up."""
    buffers = [device.buffer(4000), device.buffer(4000)]
    with recorded() as spent:
        timing = measure_hot(device, WORK, buffers, COLD, BOUNDS)
    return timing, spent["warm_up"]


def test_an_idle_gpu_is_timed_at_its_full_clock(clock: Clock) -> None:
    timing, _ = hot(Climbing(clock))
    assert timing.seconds == pytest.approx(WARM)
    assert timing.best == pytest.approx(max(timing.low, WARM))
    assert timing.high == pytest.approx(WARM)


@pytest.mark.parametrize("idle", [0.0, 0.3, NVIDIA_KEEPS_SECONDS * 0.9])
def test_a_gpu_that_is_warm_is_hardly_warmed_again(clock: Clock, idle: float) -> None:
    device = Climbing(clock)
    _, first = hot(device)
    clock.now += idle
    timing, second = hot(device)
    assert timing.seconds == pytest.approx(WARM)
    assert second < first / 5


def test_a_gpu_that_rested_is_warmed_as_at_first(clock: Clock) -> None:
    device = Climbing(clock)
    _, first = hot(device)
    clock.now += NVIDIA_KEEPS_SECONDS * 1.1
    timing, second = hot(device)
    assert timing.seconds == pytest.approx(WARM)
    assert second == pytest.approx(first, rel=0.05)


def test_another_vendors_gpu_may_drop_its_clock_at_once(clock: Clock) -> None:
    device = Climbing(clock)
    device.load = Load(vendor_id=0x1002)
    _, first = hot(device)
    _, second = hot(device)
    assert second == pytest.approx(first, rel=0.05)


def test_short_launches_neither_warm_nor_keep_warm(clock: Clock) -> None:
    load = Load(NVIDIA)
    for _ in range(200):
        clock.now += 0.01
        load.note(0.005)
    assert not load.is_warm
    load.note(WARM_SECONDS)
    assert load.is_warm
    clock.now += NVIDIA_KEEPS_SECONDS
    assert not load.is_warm


def test_load_keeps_a_warm_device_warm(clock: Clock) -> None:
    load = Load(NVIDIA)
    load.note(WARM_SECONDS)
    for _ in range(10):
        clock.now += NVIDIA_KEEPS_SECONDS * 0.9 + 0.1
        load.note(0.1)
        assert load.is_warm
    clock.now += NVIDIA_KEEPS_SECONDS + 0.1
    load.note(0.1)  # began when the clock was down
    assert not load.is_warm
