"""A job becomes a result: run twice over poison, judged, and timed if it is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from vkbench.errors import UsageError, VkbenchError
from vkbench.job import CHECKS, Job, Mode, Outcome
from vkbench.result import DRIVER_FAILED, Result, Verdict
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Array, Arrays, Problem
from vkbench_shaders.kernels.batches import Part
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.judging.batches import Whole, judge_batch
from vkbench_worker.judging.preparation import lay_out_array
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.phases import closing_stack, phase, record_phases, telemetry
from vkbench_worker.runner.bounds import checks_bounds
from vkbench_worker.runner.plans import PLANS, Planned
from vkbench_worker.runner.variants import Choice, choose, plan
from vkbench_worker.runtime.device import Device
from vkbench_worker.runtime.errors import DeviceLost, Unsupported, VulkanFailure
from vkbench_worker.runtime.program import POISON_A
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.compiling import time_compiling
from vkbench_worker.timing.timed import Judged, check, time_work


def execute(device: Device, bundle: Bundle, job: Job) -> Result:
    """Check a case on a device, and time it if that is asked for; it is all in the result."""
    return attempt(device, bundle, job, partial(_check_case, device, bundle, job))


def attempt(device: Device, bundle: Bundle, job: Job, work: Callable[[Result], Result]) -> Result:
    """Do a job's `work`, which fills in a blank result; whatever happens is in the result."""
    started, clock = time.time(), time.perf_counter()
    device.patience_seconds = job.limit_seconds
    blank = Result(
        job=job.id,
        token=job.token,
        outcome=Outcome.ERROR,
        case=job.case,
        bundle=bundle.sha,
        device=device.facts.key,
        environment=device.environment.hash,
        started=started,
    )
    with record_phases() as spent:
        result = _guard_work(device, blank, work)
    figures = {**result.telemetry, **telemetry(spent)}
    return replace(result, seconds=time.perf_counter() - clock, telemetry=figures)


def _guard_work(device: Device, blank: Result, work: Callable[[Result], Result]) -> Result:
    try:
        result = work(blank)
        device.raise_messages()
    except Unsupported as error:
        result = replace(blank, outcome=Outcome.SKIPPED, reason=str(error))
    except MemoryError:
        reason = "the host has not enough memory for this case"
        result = replace(blank, outcome=Outcome.SKIPPED, reason=reason)
    except DeviceLost as error:
        result = replace(blank, outcome=Outcome.DEVICE_LOST, reason=str(error))
    except VulkanFailure as error:
        result = replace(blank, reason=str(error), telemetry={DRIVER_FAILED: 1.0})
    except VkbenchError as error:
        result = replace(blank, reason=str(error))
    except Exception as error:  # a runner outlives whatever one job meets
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        result = replace(blank, reason=reason)
    return result


def compute(
    device: Device, bundle: Bundle, problem: Problem, variant: str, arrays: Arrays
) -> tuple[dict[str, Array], str]:
    """Run a problem once on the caller's arrays: its outputs, and the code path that made them."""
    inputs = [b.name for b in problem.kernel.bindings if b.is_input]
    storages = {
        name: lay_out_array(_array_of_caller(problem, name, arrays), problem.layout(name))
        for name in inputs
    }
    chosen = choose(problem, variant, device.facts)
    return _launch_once(device, bundle, chosen, storages), chosen.name


def _launch_once(
    device: Device, bundle: Bundle, chosen: Choice, storages: Arrays
) -> dict[str, Array]:
    """The outputs of one launch."""
    with ExitStack() as stack:
        launches = plan(bundle, chosen, device.facts, checked=checks_bounds(bundle))
        bench = Bench(device, launches, storages, stack)
        images = bench.run(POISON_A)
        device.raise_messages()
    return {name: bench.array(images, name) for name in bench.outputs}


def _array_of_caller(problem: Problem, name: str, arrays: Arrays) -> Array:
    """The caller's array of a binding, when it is what the problem takes; zeros if unread."""
    kind, shape = problem.format(name).dtype, problem.array_shape(name)
    if not problem.reads(name):
        return np.zeros(shape, kind)
    if name not in arrays:
        raise UsageError(f"{problem.kernel.name} needs an array '{name}' of {kind} {shape}")
    array = arrays[name]
    if array.dtype != kind or array.shape != shape:
        raise UsageError(f"'{name}' has to be {kind} {shape}; it is {array.dtype} {array.shape}")
    return array


def _check_case(device: Device, bundle: Bundle, job: Job, blank: Result) -> Result:
    with phase("choice"):
        due = PLANS.take(bundle, job, device.facts)
        problem, chosen, planned = due.problem, due.chosen, due.launches
    result = replace(blank, variant=chosen.name, settings=chosen.settings, kernel_sha=planned.sha)
    arithmetic = chosen.variant.arithmetic
    prepared = SHELF.get(problem, job.source, arithmetic)
    with closing_stack() as stack:
        if job.mode is Mode.COMPILE:
            made = time_compiling(device, planned, prepared, arithmetic, stack)
            result = replace(result, timings=made.timings, statistics=made.statistics)
            return _conclude(result, made.verdict)
        bench = Bench(device, planned, prepared.storages, stack)
        if job.mode not in CHECKS:
            with phase("pipelines"):  # a driver that compiles meanwhile would show in the samples
                device.stop_making()
        judged = check(bench, arithmetic, prepared)
        verdict = judged.verdict
        if verdict.passed and job.mode == Mode.BATCH:
            verdict = _check_batches(device, bundle, job, due, bench, judged)
        elif verdict.passed and job.mode not in CHECKS:
            timed = time_work(device, bench, judged, job, stack)
            verdict = timed.verdict
            result = replace(result, timings=timed.timings, telemetry=timed.telemetry)
    return _conclude(result, verdict)


def _conclude(result: Result, verdict: Verdict) -> Result:
    outcome = Outcome.PASSED if verdict.passed else Outcome.WRONG
    return replace(result, outcome=outcome, reason=verdict.reason, verdict=verdict)


def _check_batches(
    device: Device,
    bundle: Bundle,
    job: Job,
    due: Planned,
    bench: Bench,
    judged: Judged,
) -> Verdict:
    """The verdict on a case that was right, after parts of its rows ran, too."""
    problem = due.problem
    inputs = {name: problem.layout(name).view(storage) for name, storage in bench.storages.items()}

    def run(part: Problem, arrays: Arrays) -> tuple[Mapping[str, Array], str]:
        chosen = choose(part, job.variant, device.facts)
        storages = {name: lay_out_array(array, part.layout(name)) for name, array in arrays.items()}
        return _launch_once(device, bundle, chosen, storages), _path(chosen)

    def pose(part: Part) -> Problem:
        return pose_case(bundle, part.case)

    whole = Whole(
        problem=problem,
        inputs=inputs,
        outputs={name: bench.array(judged.first, name) for name in bench.outputs},
        expected=judged.expected,
        path=_path(due.chosen),
    )
    return judge_batch(judged.verdict, whole, pose, run)


def _path(chosen: Choice) -> str:
    """A code path with all its settings."""
    return ":".join(filter(None, (chosen.variant.name, chosen.settings)))
