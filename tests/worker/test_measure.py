"""Sampling on the NullDevice, whose recordings are timed stamp by stamp like a GPU's."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from vkbench.result import Timing, unpack_samples
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.runtime.null import NullDevice, Shown
from vkbench_worker.runtime.program import POISON_A, Program
from vkbench_worker.timing.measure import (
    LaunchWork,
    SampleBounds,
    few,
    launches_a_sample,
    measure_hot,
    measure_rounds,
)
from vkbench_worker.timing.rotation import rotation

POSED = problem("copy/f32/n1000")
PROGRAM = Program(code=b"", sha="", bindings=(0, 1), push_bytes=0, constants=(), problem=POSED)
LAUNCH = PackedLaunch(groups=(1, 1, 1), push=b"", constants=())
WORK = LaunchWork(passes=[(PROGRAM, LAUNCH)], bytes_moved=8000, flops=5)


class Busy(NullDevice):
    """A device that takes a known time for a launch."""

    def __init__(self, seconds: float, clock: str = "gpu") -> None:
        super().__init__(self._spin)
        self.seconds = seconds
        self.clock = clock

    def _spin(self, posed: Problem, shown: Shown) -> None:
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass


def hot(device: Busy, bounds: SampleBounds) -> Timing:
    return measure_hot(
        device, WORK, [device.buffer(4000), device.buffer(4000)], device.seconds, bounds
    )


def cold(device: Busy, size: int, bounds: SampleBounds) -> tuple[Timing, int, int]:
    with ExitStack() as stack:
        buffers = [device.buffer(size), device.buffer(size)]
        launches = launches_a_sample(device, device.seconds, bounds)
        sets = rotation(device, buffers, [None, POISON_A], launches, 2 * size, stack)
        timing, used = measure_rounds("cold", device, WORK, sets, device.seconds, bounds)
        return timing, used, len(sets.sets)


@pytest.mark.parametrize("seconds", [20e-6, 500e-6, 3e-3])
def test_a_launch_reads_as_long_as_it_takes(seconds: float) -> None:
    timing = hot(Busy(seconds), SampleBounds(seconds=0.1, noise=0.05))
    assert seconds <= timing.best < 1.5 * seconds + 20e-6
    assert timing.best <= timing.seconds < 0.1
    assert (timing.metric, timing.clock) == ("hot", "gpu")
    assert (timing.bytes_moved, timing.flops) == (8000, 5)


def test_short_launches_share_samples_that_the_timer_can_tell() -> None:
    timing = hot(Busy(2e-6), SampleBounds(seconds=0.1, noise=0.001))
    assert timing.launches > 1
    assert timing.seconds * timing.launches > 200e-6
    assert timing.count == len(unpack_samples(timing.samples)) >= 10


def test_how_many_launches_share_a_sample_is_not_the_bounds_to_say() -> None:
    device = Busy(5e-6)
    bounds = [SampleBounds(seconds=seconds, noise=0.005) for seconds in (0.1, 0.5, 1.0, 30.0)]
    assert {launches_a_sample(device, 5e-6, bound) for bound in bounds} == {200}
    assert launches_a_sample(device, 5e-6, SampleBounds(seconds=0.01, noise=0.005)) == 20


def test_long_launches_stand_alone_and_few_samples_are_warned_of() -> None:
    timing = hot(Busy(0.03), SampleBounds(seconds=0.05, noise=1e-9))
    assert timing.launches == 1
    assert timing.stop == "time"
    assert timing.count < 5
    samples = "1 sample" if timing.count == 1 else f"{timing.count} samples"
    assert timing.warnings == (f"only {samples} in the time limit",)


def test_one_sample_is_in_the_singular() -> None:
    assert few(1) == ("only 1 sample in the time limit",)
    assert few(2) == ("only 2 samples in the time limit",)


def test_the_time_bound_is_kept() -> None:
    started = time.perf_counter()
    timing = hot(Busy(1e-3), SampleBounds(seconds=0.1, noise=1e-9))
    assert timing.stop == "time"
    assert time.perf_counter() - started < 5


def test_the_noise_bound_ends_it_early() -> None:
    timing = hot(Busy(200e-6), SampleBounds(seconds=3.0, noise=0.5))
    assert timing.stop == "noise"
    assert (timing.high - timing.low) / timing.seconds <= 1.0


def test_the_hosts_clock_wants_longer_samples_and_is_told() -> None:
    timing = hot(Busy(100e-6, clock="host"), SampleBounds(seconds=0.1, noise=0.05))
    assert timing.clock == "host"
    assert timing.launches * timing.seconds > 500e-6
    assert "timed by the clock of the host, not by timestamps of the device" in timing.warnings


@pytest.mark.parametrize("clock", ["gpu", "host"])
def test_cold_launches_go_round_in_all_sets(clock: str) -> None:
    timing, used, sets = cold(Busy(200e-6, clock), 1 << 18, SampleBounds(seconds=0.2, noise=0.05))
    assert timing.metric == "cold"
    assert 200e-6 <= timing.best < 400e-6
    assert sets >= 5
    assert used == sets


def test_slow_cold_launches_stop_before_the_round_is_over() -> None:
    timing, used, sets = cold(Busy(0.02), 1 << 18, SampleBounds(seconds=0.05, noise=1e-9))
    assert timing.count == used < sets


def test_small_kernels_are_cold_after_a_flush() -> None:
    timing, _, sets = cold(Busy(5e-6), 1000, SampleBounds(seconds=0.1, noise=0.05))
    assert timing.launches == sets
    assert timing.warnings == ()
