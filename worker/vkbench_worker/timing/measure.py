"""How long one launch takes: warm-up, then samples, hot and cold apart, until a bound.

One launch, as it is counted here, is a kernel's dispatches, mostly one, and the barrier behind
each, inside a row of such launches: a sample is the time between two GPU timestamps around N of
them, divided by N. So a launch's time holds the barrier (about 1.7 us on an H200) and never the
host's submission. N is chosen so that a sample lasts about 1 ms and at least 50 timer ticks; all
samples are kept. The time bound has no say in N, unless it is very short: a stamp costs 1 to 2 us
on an H200, its share of a launch goes with N, and kernels of 5 us that were sampled under two
bounds (22 and 112 launches) read 1 to 2 % apart.

Hot: always the same buffers. Cold: the buffers rotate, so that twice the last-level cache passes
between two uses of one set; kernels too small for that have the caches overwritten before each
sample of one launch a set. Launches of a kernel that is not idempotent find their input again each
time (`restoring.py`), hot ones too. Devices whose queue has no timestamps are timed by the host,
over longer rows of launches; `Timing.clock` says so.

Before that, launches go on until the clock has settled: for a while if the clock was down, a few
times if it is up. Samples during which it fell are taken again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from statistics import median
from typing import Final, TypeVar

from vkbench.result import Timing
from vkbench.words.units import count_of
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.phases import phase
from vkbench_worker.runtime.device import (
    Barrier,
    Buffer,
    Device,
    Dispatch,
    Fill,
    Pipeline,
    Recording,
    Stamp,
    Step,
)
from vkbench_worker.runtime.load import WARM_SECONDS
from vkbench_worker.timing.rotation import Restored, Rotation, restoring
from vkbench_worker.timing.stopping import LEAST_SAMPLES, NoiseBound, TimeLimit, first_reached
from vkbench_worker.timing.summary import Sampling, timing_of

T = TypeVar("T")
Passes = Sequence[tuple[Pipeline, PackedLaunch]]

LEAST_TICKS: Final = 50
SAMPLE_SECONDS: Final = 1e-3
SAMPLE_SHARE: Final = 0.01  # of a time bound that has no room for a hundred samples
HOST_SAMPLE_SECONDS: Final = 5e-3  # the host's clock also sees a submission, about 50 us
MOST_LAUNCHES: Final = 2000  # in one recording
FEW: Final = "in the time limit"  # last words of that warning
_RECORDING_SECONDS: Final = 5e-3  # a recording is about so long where launches are short
_LONG_ROUND_SECONDS: Final = 50e-3
_SAMPLES_A_RECORDING: Final = 16

_WARM_LIMIT_SECONDS: Final = 3.0
_WARM_CPU_SHARE: Final = 0.1  # of the time bound, on CPU drivers: nothing to settle
_LEAST_SHARE: Final = 0.1  # of the time bound: sampling goes on so long whatever the noise
_SETTLED: Final = 0.02  # change of the median over two windows at which the clock counts as settled
_WINDOW, _WARM_WINDOW = 5, 2  # recordings; of a GPU whose clock is up


@dataclass(frozen=True, kw_only=True)
class LaunchWork:
    """What is launched, and what one launch moves and computes."""

    passes: Passes
    bytes_moved: int
    flops: int
    places: Sequence[int] | None = None  # of the buffers that it binds, in order; None: of all

    def launch(self, buffers: Sequence[Buffer]) -> list[Step]:
        """One launch: its dispatches, each with the barrier that keeps the next one behind it."""
        bound = self.bound(buffers)
        dispatches = [Dispatch(made, bound, at.groups, at.push) for made, at in self.passes]
        return [step for dispatch in dispatches for step in (dispatch, Barrier())]

    def bound(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Those of a bench's buffers that it binds, in the order of their binding numbers."""
        return buffers if self.places is None else [buffers[place] for place in self.places]


@dataclass(frozen=True, kw_only=True)
class SampleBounds:
    """When to stop sampling one metric."""

    seconds: float
    noise: float  # relative half-width of the median's interval


@dataclass(frozen=True)
class _SamplePlan:
    """How launches are put into samples and samples into a recording."""

    launches: int  # in one sample
    samples: int  # in one recording


def measure_hot(
    device: Device,
    work: LaunchWork,
    buffers: Sequence[Buffer],
    seconds: float,
    bounds: SampleBounds,
) -> Timing:
    """Launches back to back over one set of buffers; `seconds` is what one took so far, roughly."""

    def take_samples() -> tuple[int, list[float], str]:
        started = time.perf_counter()
        plan = _plan(device, warm_up(device, work, buffers, seconds, bounds), bounds)
        with phase("hot"), closing(device.record(_hot_steps(work, buffers, plan))) as recording:
            # On CPU drivers the warm-up is taken out of the metric's own time.
            spent = time.perf_counter() - started if _is_cpu(device) else 0.0
            return plan.launches, *_sample(device, [recording], plan.launches, bounds, spent)

    launches, samples, stop = _at_full_clock(device, take_samples)
    return _timing("hot", device, work, samples, launches, stop, ())


def _at_full_clock(device: Device, take_samples: Callable[[], T]) -> T:
    """Samples between which the clock stayed up: taken again, after a whole warm-up, if it fell."""
    samples = take_samples()
    return samples if device.load.stayed_up() else take_samples()


def warm_up(
    device: Device,
    work: LaunchWork,
    buffers: Sequence[Buffer],
    seconds: float,
    bounds: SampleBounds,
) -> float:
    """Launches until the clock has settled; seconds of one then, about."""
    if _is_cpu(device) and seconds >= bounds.seconds * _WARM_CPU_SHARE:
        return seconds
    plan = _plan(device, seconds, bounds)
    with phase("warm_up"), closing(device.record(_hot_steps(work, buffers, plan))) as warming:
        return _settle(device, warming, plan, bounds)


def launches_a_sample(device: Device, seconds: float, bounds: SampleBounds) -> int:
    """How many launches of so many seconds make a sample."""
    return _plan(device, seconds, bounds).launches


def measure_rounds(
    metric: str,
    device: Device,
    work: LaunchWork,
    rotation: Rotation,
    seconds: float,
    bounds: SampleBounds,
) -> tuple[Timing, int]:
    """Launches that go round in the sets of a rotation, and how many of the sets were launched.

    `seconds` is what a hot launch took so far, roughly.
    """
    with phase(metric), ExitStack() as stack:
        visitor = rotating_visitor(device, work, rotation, seconds, stack)
        visit = visitor.visit(bounds)
    timing = visitor.summed_up(metric, [visit], rotation.warnings)
    return timing, min(len(rotation.sets), len(visit.samples) * rotation.launches)


@dataclass(frozen=True, kw_only=True)
class Visit:
    """Samples that were taken in one go."""

    samples: Sequence[float]  # seconds of a launch
    stop: str  # which bound ended it


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Work recorded once, to be sampled again and again, with other work in between."""

    device: Device
    work: LaunchWork
    recordings: Sequence[Recording]
    launches: int  # in one sample

    def visit(self, bounds: SampleBounds) -> Visit:
        """Samples until a bound is reached."""

        def take_visit() -> Visit:
            if not _is_cpu(self.device):  # what was done before, copies most of all, is no load
                plan = _SamplePlan(self.launches, 1)
                with phase("warm_up"):
                    _settle(self.device, self.recordings[0], plan, bounds)
            samples, stop = _sample(self.device, self.recordings, self.launches, bounds, 0.0)
            return Visit(samples=samples, stop=stop)

        return _at_full_clock(self.device, take_visit)

    def summed_up(self, metric: str, visits: Sequence[Visit], warnings: tuple[str, ...]) -> Timing:
        """One timing of several visits: as many samples of each, so that each weighs as much."""
        least = min(len(visit.samples) for visit in visits)
        samples = [sample for visit in visits for sample in visit.samples[:least]]
        stop = max(visit.stop for visit in visits)  # time rather than noise, if any was
        return _timing(metric, self.device, self.work, samples, self.launches, stop, warnings)


def hot_visitor(
    device: Device,
    work: LaunchWork,
    buffers: Sequence[Buffer],
    seconds: float,
    bounds: SampleBounds,
    stack: ExitStack,
) -> Visitor:
    """Launches back to back over one set of buffers, each of about so many seconds."""
    plan = _plan(device, seconds, bounds)
    recording = device.record(_hot_steps(work, buffers, plan))
    stack.callback(recording.close)
    return Visitor(device=device, work=work, recordings=[recording], launches=plan.launches)


def rotating_visitor(
    device: Device,
    work: LaunchWork,
    rotation: Rotation,
    seconds: float,
    stack: ExitStack,
) -> Visitor:
    """Launches that go round in the sets of a rotation; a hot one takes about so many seconds."""
    recordings: list[Recording] = []
    for sets, steps in _rounds(device, work, rotation, seconds):
        recording: Recording = device.record(steps)
        if rotation.originals:
            recording = Restored(
                restoring=device.record(restoring(rotation, sets)), timed=recording
            )
        stack.callback(recording.close)
        recordings.append(recording)
    return Visitor(device=device, work=work, recordings=recordings, launches=rotation.launches)


def _hot_steps(work: LaunchWork, buffers: Sequence[Buffer], plan: _SamplePlan) -> list[Step]:
    sample = work.launch(buffers) * plan.launches
    return [Stamp(), *(step for _ in range(plan.samples) for step in (*sample, Stamp()))]


def _rounds(
    device: Device, work: LaunchWork, rotation: Rotation, seconds: float
) -> list[tuple[Sequence[Sequence[Buffer]], list[Step]]]:
    """One round of samples, in one recording or, where that would take long, in one a sample.

    Each with the sets that it launches.
    """
    flush: list[Step] = [Fill(rotation.scratch), Barrier()] if rotation.scratch else []
    starts = range(0, len(rotation.sets), rotation.launches)
    parts = [rotation.sets[at : at + rotation.launches] for at in starts]
    samples = [[step for buffers in part for step in work.launch(buffers)] for part in parts]
    if device.clock == "host" or seconds * len(rotation.sets) > _LONG_ROUND_SECONDS:
        return [
            (part, [*flush, Stamp(), *sample, Stamp()])
            for part, sample in zip(parts, samples, strict=True)
        ]
    steps = [*flush, Stamp(), *(step for sample in samples for step in (*sample, Stamp()))]
    return [(rotation.sets, steps)]


def _settle(
    device: Device,
    recording: Recording,
    plan: _SamplePlan,
    bounds: SampleBounds,
) -> float:
    """Run until the clock has climbed and settled; seconds of a launch then."""
    least, most, window = WARM_SECONDS, _WARM_LIMIT_SECONDS, _WINDOW
    is_up = device.load.is_up()
    if _is_cpu(device):
        least, most = 0.0, bounds.seconds * _WARM_CPU_SHARE
    elif is_up:
        least, window = 0.0, _WARM_WINDOW
    started, seen = time.perf_counter(), []
    while True:
        seen.append(median(recording.run()) / plan.launches)
        elapsed = time.perf_counter() - started
        if elapsed >= most or (elapsed >= least and _is_settled(seen, window)):
            if not is_up:
                device.load.note_warm_up()
            return max(median(seen[-window:]), 1e-9)


def _is_cpu(device: Device) -> bool:
    return device.facts.type == "cpu"


def _is_settled(seen: Sequence[float], window: int) -> bool:
    if len(seen) < 2 * window:
        return False
    before, after = median(seen[-2 * window : -window]), median(seen[-window:])
    return abs(after - before) <= _SETTLED * before


def _plan(device: Device, seconds: float, bounds: SampleBounds) -> _SamplePlan:
    """Samples long enough for the timer, recordings long enough for the submission."""
    target = min(SAMPLE_SECONDS, bounds.seconds * SAMPLE_SHARE)
    target = max(target, LEAST_TICKS * device.tick_seconds)
    if device.clock == "host":
        target = max(target, HOST_SAMPLE_SECONDS)
    launches = min(MOST_LAUNCHES, max(1, ceil(target / seconds)))
    if device.clock == "host":
        return _SamplePlan(launches, 1)
    fitting = min(
        int(_RECORDING_SECONDS / (seconds * launches)),
        MOST_LAUNCHES // launches,
        _SAMPLES_A_RECORDING,
    )
    return _SamplePlan(launches, max(1, fitting))


def _sample(
    device: Device,
    recordings: Sequence[Recording],
    launches: int,
    bounds: SampleBounds,
    spent: float,
) -> tuple[list[float], str]:
    """Samples of recordings that take turns, and the name of the bound that ended them."""
    least = bounds.seconds * _LEAST_SHARE
    stops = (NoiseBound(bounds.noise, least), TimeLimit(bounds.seconds))
    started = time.perf_counter() - spent
    samples: list[float] = []
    stop = ""
    for recording in cycle(recordings):
        samples += [seconds / launches for seconds in recording.run()]
        elapsed = time.perf_counter() - started
        stop = first_reached(stops, samples, elapsed)
        if stop:
            break
    return samples, stop


def _timing(
    metric: str,
    device: Device,
    work: LaunchWork,
    samples: Sequence[float],
    launches: int,
    stop: str,
    warnings: tuple[str, ...],
) -> Timing:
    how = Sampling(
        metric=metric,
        launches=launches,
        stop=stop,
        clock=device.clock,
        bytes_moved=work.bytes_moved,
        flops=work.flops,
        warnings=(*warnings, *_warnings(device, samples)),
    )
    return timing_of(samples, how)


def few(samples: int) -> tuple[str, ...]:
    """A warning of so many samples, if they are few."""
    return (f"only {count_of(samples, 'sample')} {FEW}",) if samples < LEAST_SAMPLES else ()


def _warnings(device: Device, samples: Sequence[float]) -> list[str]:
    warnings = [*few(len(samples))]
    if device.clock == "host":
        warnings.append("timed by the clock of the host, not by timestamps of the device")
    return warnings
