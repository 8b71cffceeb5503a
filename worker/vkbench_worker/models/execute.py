"""A model's job becomes a result: judged, and timed if it is right."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from statistics import median

from vkbench.calibration import TICK
from vkbench.configuration import parse
from vkbench.device import DeviceFacts, uncached_bytes
from vkbench.errors import UsageError
from vkbench.job import AUTO, Job, Mode, Outcome
from vkbench.result import MEMORY_BYTES, MODEL_BYTES, MODEL_WEIGHTS, Result, Verdict
from vkbench.words import names
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.models.cases import VARIANTS, ModelCase, model_case
from vkbench_shaders.models.hyper import Hyper
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.models.judging import judge, judged_layers
from vkbench_worker.models.model import Model, Options
from vkbench_worker.models.passage import Passage
from vkbench_worker.models.profile import profile
from vkbench_worker.models.trial import Left, Trial
from vkbench_worker.models.weights import Progress
from vkbench_worker.phases import phase
from vkbench_worker.progress import stage
from vkbench_worker.runner.execute import attempt
from vkbench_worker.runtime.device import Buffer, Device, Step
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import POISON_A, POISON_B
from vkbench_worker.timing import telemetry
from vkbench_worker.timing.measure import LaunchWork, SampleBounds, measure_hot


@dataclass(frozen=True, kw_only=True)
class PhaseWork(LaunchWork):
    """A passage as work that can be timed: it runs again and again at one place."""

    steps: Sequence[Step]  # on the passage's own buffers

    def launch(self, buffers: Sequence[Buffer]) -> list[Step]:
        """One run of the passage."""
        return list(self.steps)


@dataclass(frozen=True, kw_only=True)
class Posed:
    """What a model's job asks for: file, case and code path."""

    case: ModelCase
    file: GgufFile
    hyper: Hyper
    options: Options
    variant: str
    kept: tuple[int, ...]  # layers that are judged one by one


def pose_job(job: Job, device: DeviceFacts) -> Posed:
    """The model task of a job; an error says why it cannot be done."""
    if not job.source:
        raise UsageError(f"{job.case} needs the file of the model, and the job names none")
    case, file = model_case(job.case), open_gguf(Path(job.source.path))
    case.check_file(file)
    hyper = case.read_hyper(file)
    variant = variant_for(job.variant, device)
    return Posed(
        case=case,
        file=file,
        hyper=hyper,
        options=Options(
            context=case.room,
            batch=case.batch,
            cache=case.cache,
            products=VARIANTS[variant],
        ),
        variant=variant,
        kept=judged_layers(file, hyper.layers, case.tokens * case.batch),
    )


def execute_model(device: Device, bundle: Bundle, job: Job) -> Result:
    """Check a model's case on a device, and time it if that is asked for; all is in the result."""
    return attempt(device, bundle, job, partial(_execute_model, device, bundle, job))


def _execute_model(device: Device, bundle: Bundle, job: Job, blank: Result) -> Result:
    task = pose_job(job, device.facts)
    with (
        Model(device, bundle, task.file, task.hyper, task.options, _loading(task.file)) as model,
        ExitStack() as stack,
    ):
        trial = Trial(model, task.case, task.kept)
        result = replace(blank, variant=task.variant, kernel_sha=sha_of(trial.run))
        device.stop_making()
        first, verdict = check_trial(trial)
        if verdict.passed and job.mode is not Mode.CORRECTNESS:
            result, verdict = _time_phase(device, job, trial, first, verdict, result, stack)
        result = replace(result, telemetry={**result.telemetry, **_about(model)})
    outcome = Outcome.PASSED if verdict.passed else Outcome.WRONG
    return replace(result, outcome=outcome, reason=verdict.reason, verdict=verdict)


def _loading(file: GgufFile) -> Progress:
    """Tells whoever watches how far the weights are loaded."""
    return stage(f"loading {file.path.name}")


def _about(model: Model) -> dict[str, float]:
    """Telemetry of a model: its size, and what it took on the device."""
    tensors = model.file.tensors.values()
    return {
        MODEL_BYTES: float(sum(tensor.bytes for tensor in tensors)),
        MODEL_WEIGHTS: float(sum(prod(tensor.shape) for tensor in tensors)),
        MEMORY_BYTES: float(model.memory_bytes),
    }


def check_trial(trial: Trial) -> tuple[Left, Verdict]:
    """What a run left, and the verdict on it and on a second run after another prompt."""
    with phase("launches"):
        first, second = trial.left_over(POISON_A), trial.left_again(POISON_B)
    with phase("judging"):
        verdict = judge(trial, first, second)
        if not verdict.passed:  # the reference read the file anew
            trial.model.file.check_unchanged()
        return first, verdict


def variant_for(variant: str, device: DeviceFacts) -> str:
    """The code path: `auto` rounds vectors and joins steps if a GPU multiplies bytes fast."""
    if variant.casefold() == AUTO:
        fast = {"int_dot", "subgroup_arithmetic"} <= set(device.features) and device.type != "cpu"
        return "joined" if fast else "plain"
    name = parse(variant).variant
    try:
        return names.pick(name, VARIANTS, "variant of a model")
    except UsageError as error:
        raise Unsupported(str(error)) from error


def work_of(run: Passage) -> PhaseWork:
    """A passage as work that can be timed."""
    return PhaseWork(passes=(), bytes_moved=run.bytes_moved, flops=run.flops, steps=run.steps())


def _time_phase(
    device: Device,
    job: Job,
    trial: Trial,
    judged: Left,
    verdict: Verdict,
    result: Result,
    stack: ExitStack,
) -> tuple[Result, Verdict]:
    """Timings of a phase that was judged right; none if it does not leave the same any more."""
    bounds = SampleBounds(seconds=job.measure_seconds, noise=job.noise)
    seconds = median(trial.run.recording.run() or [1.0])
    trial.run.poison(POISON_A)
    with SHELF.pause_preparing():
        hot = measure_hot(device, work_of(trial.run), (), seconds, bounds)
        with phase("readings"):
            readings = telemetry.read(device.facts, device.pci_address)
    if device.clock == "gpu":
        readings = {**readings, TICK: device.tick_seconds * 1e9}
    with phase("judging"):
        verdict = judged_again(trial, judged, verdict)
    if not verdict.passed:
        return result, verdict
    with phase("profile"):
        steps = profile(trial.run)
    hot = replace(hot, warnings=(*hot.warnings, *_warn_if_cached(device.facts, hot.bytes_moved)))
    figures = {**readings, **steps, "scratch_bytes": float(trial.run.scratch_bytes)}
    return replace(result, timings=(hot,), telemetry=figures), verdict


def _warn_if_cached(facts: DeviceFacts, bytes_moved: int) -> list[str]:
    """A warning if one run's weights are still in a cache for the next: else hot is cold."""
    if bytes_moved >= uncached_bytes(facts.llc_bytes):
        return []
    return [f"in the caches: {bytes_moved:,} bytes of a run, {facts.llc_bytes:,} of cache"]


def judged_again(trial: Trial, judged: Left, verdict: Verdict) -> Verdict:
    """The verdict on what timing left: right if the logits are those that were judged."""
    before, after = (left.logits.data for left in (judged, trial.collect_left()))
    changed = int((before != after).sum())
    if not changed:
        return verdict
    reason = f"{changed} bytes of the {judged.makes} changed while they were timed"
    return replace(verdict, passed=False, reason=reason, unrepeated=changed)


def sha_of(run: Passage) -> str:
    """SHA-256 of the hashes of all code that runs."""
    parts = dict.fromkeys(launch.program.sha for level in run.levels for launch in level)
    return hashlib.sha256("".join(parts).encode()).hexdigest()
