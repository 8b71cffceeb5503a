"""What a driver makes of a kernel: how long it compiles without caches, and what comes of it.

Some drivers compile when a pipeline is made, others at its first launch. So the time is that of the
pipelines, and of what the first launch takes longer than the second one. A runner can tell it once
of each kernel. Afterwards it times how long the host takes to submit a launch, and asks the driver
for its statistics.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Final

from vkbench.result import COMPILE, SUBMIT, Statistic, Timing, Verdict
from vkbench_worker.judging.judge import Images, judge
from vkbench_worker.judging.preparation import Prepared, for_path
from vkbench_worker.phases import phase
from vkbench_worker.runner.variants import LaunchPlan
from vkbench_worker.runtime.device import Device, Stamp
from vkbench_worker.runtime.program import POISON_A, POISON_B
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.energy import measure_energy
from vkbench_worker.timing.summary import Sampling, timing_of

_WAKING_BYTES: Final = 4096
_SUBMISSIONS: Final = 40  # of each runner


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """What came of compiling a kernel; a wrong one has its verdict alone."""

    verdict: Verdict
    timings: tuple[Timing, ...] = ()
    statistics: tuple[Statistic, ...] = ()


def time_compiling(
    device: Device, plan: LaunchPlan, prepared: Prepared, path: str, stack: ExitStack
) -> Compiled:
    """Make a plan's pipelines and launch them twice: the verdict, one sample, and what was made."""
    _wake(device)
    began = time.perf_counter()
    with phase("pipelines"):
        for program, _ in plan.passes:
            device.pipeline(program)
    made = time.perf_counter() - began
    bench = Bench(device, plan, prepared.storages, stack)
    with phase("launches"):
        (slow, first), (fast, second) = (_time_run(bench, each) for each in (POISON_A, POISON_B))
    expected = for_path(bench.problem, prepared, path).expected
    with phase("judging"):
        verdict = judge(bench.problem, path, first, second, expected)
    if not verdict.passed:
        return Compiled(verdict=verdict)
    compiling = _sum_up(COMPILE, [made + max(0.0, slow - fast)])
    with phase("submissions"):
        submitting = _sum_up(SUBMIT, _time_submissions(device, bench))
    programs = list({program.key: program for program, _ in plan.passes}.values())
    with phase("statistics"):
        statistics = (*device.list_statistics(programs), measure_energy(device, bench))
    return Compiled(verdict=verdict, timings=(compiling, submitting), statistics=statistics)


def _time_submissions(device: Device, bench: Bench) -> list[float]:
    """What the host takes to hand a recorded launch to the driver, again and again."""
    with closing(device.record(bench.work.launch(bench.buffers))) as recording:
        return [device.time_submission(recording) for _ in range(_SUBMISSIONS)]


def _sum_up(metric: str, samples: Sequence[float]) -> Timing:
    return timing_of(samples, Sampling(metric=metric, launches=1, clock="host"))


def _wake(device: Device) -> None:
    """Have the device do something: what its first submission takes belongs to no kernel."""
    with closing(device.buffer(_WAKING_BYTES)) as buffer:
        buffer.fill(POISON_A)
        with closing(device.record([Stamp(), Stamp()])) as recording:
            recording.run()


def _time_run(bench: Bench, poison: int) -> tuple[float, Images]:
    began = time.perf_counter()
    images = bench.run(poison)
    return time.perf_counter() - began, images
