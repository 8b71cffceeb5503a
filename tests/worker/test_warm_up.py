"""Warm-up on a simulated GPU, whose clock climbs under load and drops where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from math import inf

import pytest

from planted_clock import Clock
from vkbench.result import Timing
from vkbench_shaders.catalogue import problem
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.phases import record_phases
from vkbench_worker.runtime.load import WARM_SECONDS, Load
from vkbench_worker.runtime.null import NullBuffer, NullDevice
from vkbench_worker.runtime.program import Program
from vkbench_worker.timing.measure import LaunchWork, SampleBounds, measure_hot

POSED = problem("copy/f32/n1000")
PROGRAM = Program(code=b"", sha="", bindings=(0, 1), push_bytes=0, constants=(), problem=POSED)
LAUNCH = PackedLaunch(groups=(1, 1, 1), push=b"", constants=())
WORK = LaunchWork(passes=[(PROGRAM, LAUNCH)], bytes_moved=8000, flops=5)
BOUNDS = SampleBounds(seconds=1.0, noise=0.005)
WARM, COLD = 100e-6, 550e-6  # seconds of a launch
CLIMB = 0.35  # seconds of load
KEEPS = 1.5  # seconds of idleness
GAUGE = 4e-6  # seconds of the gauge at the full clock
ON_THE_WAY = 0.6  # of the climb: until then the clock does not move


class Climbing(NullDevice):
    """A GPU that was idle until it is given work: each launch takes the clock its time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.facts = replace(self.facts, type="discrete")
        self.clock = "gpu"
        self.load = Load(self.gauge)
        self._now = clock
        self._loaded = 0.0
        self._ended = clock.now
        self.falls_at = inf  # once, whatever the load
        self.is_at_its_limit = False  # of power, after any launch but the gauge's
        self.host: Iterator[float] = cycle([1.0])  # by what the host's clock lengthens a reading

    def dispatch(self, program: Program, buffers: Sequence[NullBuffer]) -> None:
        seconds = self._slowness() * WARM
        self._now.now += seconds
        self._loaded += seconds
        self._ended = self._now.now

    def gauge(self) -> float:
        self._now.now += 3 * GAUGE * self._slowness()
        limited = 1.1 if self.is_at_its_limit else 1
        return GAUGE * self._slowness() * limited * next(self.host)

    def _slowness(self) -> float:
        """How many times as long something takes as at the full clock."""
        if self._now.now - self._ended > KEEPS or self._now.now >= self.falls_at:
            self._loaded = 0.0
        if self._now.now >= self.falls_at:
            self.falls_at = inf
        climbed = min(1.0, self._loaded / CLIMB)
        share = max(0.0, (climbed - ON_THE_WAY) / (1 - ON_THE_WAY))
        return 1 / (WARM / COLD * (1 - share) + share)


def hot(device: Climbing) -> tuple[Timing, float]:
    """A hot timing, and the seconds of its warm-up."""
    buffers = [device.buffer(4000), device.buffer(4000)]
    with record_phases() as spent:
        timing = measure_hot(device, WORK, buffers, COLD, BOUNDS)
    return timing, spent["warm_up"]


def test_an_idle_gpu_is_timed_at_its_full_clock(clock: Clock) -> None:
    timing, _ = hot(Climbing(clock))
    assert timing.seconds == pytest.approx(WARM)
    assert timing.best == pytest.approx(max(timing.low, WARM))
    assert timing.high == pytest.approx(WARM)


@pytest.mark.parametrize("idle", [0.0, 0.3, KEEPS * 0.9])
def test_a_gpu_that_is_warm_is_hardly_warmed_again(clock: Clock, idle: float) -> None:
    device = Climbing(clock)
    _, first = hot(device)
    clock.now += idle
    timing, second = hot(device)
    assert timing.seconds == pytest.approx(WARM)
    assert second < first / 5


def test_a_noisy_reading_of_the_clock_costs_no_whole_warm_up(clock: Clock) -> None:
    device = Climbing(clock)
    _, first = hot(device)
    device.host = cycle([1.05, 1.03, 1.04, 1.0, 1.03, 1.0])  # four before the timing, two after it
    timing, second = hot(device)
    assert timing.high == pytest.approx(WARM)
    assert second < first / 5


def test_a_gpu_that_rested_is_warmed_as_at_first(clock: Clock) -> None:
    device = Climbing(clock)
    _, first = hot(device)
    clock.now += KEEPS * 1.1
    timing, second = hot(device)
    assert timing.seconds == pytest.approx(WARM)
    assert second == pytest.approx(first, rel=0.05)


def test_a_clock_that_fell_between_two_jobs_is_lifted_again(clock: Clock) -> None:
    device = Climbing(clock)
    _, first = hot(device)
    device.falls_at = clock.now
    timing, second = hot(device)
    assert timing.high == pytest.approx(WARM)
    assert second == pytest.approx(first, rel=0.05)


@pytest.mark.parametrize("after", [0.01, 0.1])
def test_samples_between_which_the_clock_fell_are_taken_again(clock: Clock, after: float) -> None:
    device = Climbing(clock)
    hot(device)
    device.falls_at = clock.now + after
    timing, second = hot(device)
    assert timing.high == pytest.approx(WARM)
    assert second > WARM_SECONDS


def test_what_a_kernel_does_to_the_clock_is_part_of_its_time(clock: Clock) -> None:
    """At the limit of power the clock stays lower: the samples after a whole warm-up count."""
    device = Climbing(clock)
    hot(device)
    device.is_at_its_limit = True
    before = clock.now
    timing, warming = hot(device)
    assert timing.seconds == pytest.approx(WARM)
    assert WARM_SECONDS <= warming < 2 * WARM_SECONDS
    assert clock.now - before < 2 * WARM_SECONDS + BOUNDS.seconds


def test_a_gpu_without_a_gauge_is_warmed_each_time(clock: Clock) -> None:
    device = Climbing(clock)
    device.load = Load()
    _, first = hot(device)
    _, second = hot(device)
    assert second == pytest.approx(first, rel=0.05)
