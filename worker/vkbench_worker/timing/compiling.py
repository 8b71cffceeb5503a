"""Times what a kernel takes before its launches are fast: a driver's compiling, without its caches.

Some drivers compile when a pipeline is made, others at its first launch. So the time is that of the
pipelines, and of what the first launch takes longer than the second one. A runner can tell it once
of each kernel.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import Final

from vkbench.result import COMPILE, Timing, Verdict
from vkbench_worker.judging.judge import Images, judge
from vkbench_worker.judging.preparation import Prepared, for_path
from vkbench_worker.phases import phase
from vkbench_worker.runner.variants import LaunchPlan
from vkbench_worker.runtime.device import Device, Stamp
from vkbench_worker.runtime.program import POISON_A, POISON_B
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.summary import Sampling, timing_of

_WAKING_BYTES: Final = 4096


def time_compiling(
    device: Device, plan: LaunchPlan, prepared: Prepared, path: str, stack: ExitStack
) -> tuple[Verdict, Timing]:
    """Make a plan's pipelines and launch them twice: the verdict, and one sample."""
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
    sampling = Sampling(metric=COMPILE, launches=1, clock="host")
    return verdict, timing_of([made + max(0.0, slow - fast)], sampling)


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
