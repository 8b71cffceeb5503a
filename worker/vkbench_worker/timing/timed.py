"""Times a job; the timing counts only if every output is still the judged one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import numpy as np

from vkbench.calibration import TICK
from vkbench.job import Job
from vkbench.result import OTHERS_BYTES, Timing, Verdict
from vkbench_shaders.kernel import Flow
from vkbench_worker.judging.judge import Expected, Images, judge
from vkbench_worker.judging.preparation import Prepared, for_path
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.phases import phase
from vkbench_worker.runtime.device import Buffer, Device, Flight
from vkbench_worker.runtime.program import POISON_A, POISON_B, Image
from vkbench_worker.timing import telemetry
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.flow import METRICS, flight_of, measure_flight, misread, poison
from vkbench_worker.timing.measure import (
    SampleBounds,
    launches_a_sample,
    measure_hot,
    measure_rounds,
)
from vkbench_worker.timing.restoring import restored_rotation, ring
from vkbench_worker.timing.rotation import rotation
from vkbench_worker.timing.summary import Timed


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A verdict, and all that it was reached from."""

    verdict: Verdict
    first: Images  # over poison A
    second: Images  # over poison Buffer
    expected: Expected


def check(bench: Bench, path: str, prepared: Prepared) -> Judged:
    """Run twice over poison and judge."""
    expected = for_path(bench.problem, prepared, path).expected
    with phase("launches"):
        first, second = bench.run(POISON_A), bench.run(POISON_B)
    with phase("judging"):
        verdict = judge(bench.problem, path, first, second, expected)
    return Judged(verdict=verdict, first=first, second=second, expected=expected)


def time_work(device: Device, bench: Bench, judged: Judged, job: Job, stack: ExitStack) -> Timed:
    """Hot and cold timings of work that was judged right, and the verdict after them.

    A job that is timed hot only has no other.
    Outputs are poisoned again before the timing, and what is changed in place holds its input, so
    that right bits afterwards come from the timed launches.
    """
    bounds = SampleBounds(seconds=job.measure_seconds, noise=job.noise)
    if flow := bench.problem.kernel.work.flow:
        return _time_in_flight(device, bench, judged, flow, bounds)
    with phase("buffers"):
        bench.reset(POISON_A)
    with SHELF.pause_preparing():
        hot, sets = _hot(device, bench, bounds, stack)
        timings: list[Timing] = [hot]
        if not job.hot_only:
            cold, others = _cold(device, bench, hot, bounds, stack)
            timings.append(cold)
            sets = [*sets, *others[1:]]  # the first is the first hot one
        readings = _readings(device)
    with phase("judging"):
        verdict = judge_again(bench, judged, sets)
    return Timed(
        timings=tuple(timings) if verdict.passed else (), verdict=verdict, telemetry=readings
    )


def _time_in_flight(
    device: Device, bench: Bench, judged: Judged, flow: Flow, bounds: SampleBounds
) -> Timed:
    """Hot with several submissions in flight, cold with one.

    Inputs that are uploaded are poisoned before, and what was read back is judged too.
    """
    timings, verdict, readings = [], judged.verdict, dict[str, float]()
    for metric in METRICS:
        with SHELF.pause_preparing(), closing(flight_of(device, bench, flow, metric)) as flight:
            poison(bench, flow)
            timings.append(measure_flight(device, bench, flight, metric, bounds))
            readings.update(_readings(device))
            with phase("judging"):
                verdict = judge_flown(bench, judged, flight)
        if not verdict.passed:
            return Timed(timings=(), verdict=verdict, telemetry=readings)
    return Timed(timings=tuple(timings), verdict=verdict, telemetry=readings)


def judge_flown(bench: Bench, judged: Judged, flight: Flight) -> Verdict:
    """The verdict on what a flight left on the device, and on what it read back."""
    verdict = judge_again(bench, judged, [bench.buffers])
    wrong = misread(bench, judged.first, flight) if verdict.passed else 0
    if not wrong:
        return verdict
    reason = f"{wrong} bytes that were read back are not those of the checked launch"
    return replace(verdict, passed=False, reason=reason, unrepeated=wrong)


def _hot(
    device: Device, bench: Bench, bounds: SampleBounds, stack: ExitStack
) -> tuple[Timing, Sequence[Sequence[Buffer]]]:
    """Hot, and the sets of buffers that were launched."""
    work, seconds = bench.work, bench.seconds
    if not bench.restored:
        timing = measure_hot(device, work, bench.buffers, seconds, bounds)
        return timing, [bench.buffers]
    with phase("sets"):
        launches = launches_a_sample(device, seconds, bounds)
        sets = ring(device, bench.buffers, bench.restored, launches, stack)
    timing, _ = measure_rounds("hot", device, work, sets, seconds, bounds)
    return timing, sets.sets


def _cold(
    device: Device,
    bench: Bench,
    hot: Timing,
    bounds: SampleBounds,
    stack: ExitStack,
) -> tuple[Timing, Sequence[Sequence[Buffer]]]:
    """Cold, and the sets of buffers that were launched."""
    launches = launches_a_sample(device, hot.seconds, bounds)
    with phase("sets"):
        moved = bench.work.bytes_moved
        rotating = rotation(device, bench.buffers, bench.fills(POISON_A), launches, moved, stack)
        for buffers in rotating.sets[1:]:
            bench.restore(buffers)
        rotating = restored_rotation(device, rotating, bench.restored, stack)
    cold, used = measure_rounds("cold", device, bench.work, rotating, hot.seconds, bounds)
    return cold, rotating.sets[:used]


def _readings(device: Device) -> Mapping[str, float]:
    """What the device tells of itself while its clocks still are up."""
    with phase("readings"):
        readings = dict(telemetry.read(device.facts, device.pci_address))
        if (held := device.memory_of_others()) is not None:
            readings[OTHERS_BYTES] = held
    if device.clock == "gpu":
        return {**readings, TICK: device.tick_seconds * 1e9}
    return readings


def judge_again(bench: Bench, judged: Judged, sets: Sequence[Sequence[Buffer]]) -> Verdict:
    """The verdict on what timing left in each set of buffers: the same bits, or judged anew."""
    for number, buffers in enumerate(sets):
        images = bench.images(buffers)
        if bench.problem.kernel.check.deterministic:
            changed = sum(_differing(images[name], judged.first[name]) for name in images)
            if changed:
                where = f"set {number} of buffers"
                reason = f"{changed} bytes of the output changed while it was timed ({where})"
                return replace(judged.verdict, passed=False, reason=reason, unrepeated=changed)
        else:
            verdict = judge(
                bench.problem, judged.verdict.path, images, judged.second, judged.expected
            )
            if not verdict.passed:
                return replace(verdict, reason=f"while it was timed: {verdict.reason}")
    return judged.verdict


def _differing(image: Image, other: Image) -> int:
    parts = ((image.lead, other.lead), (image.data, other.data), (image.trail, other.trail))
    return sum(int(np.count_nonzero(a != b)) for a, b in parts if not np.array_equal(a, b))
