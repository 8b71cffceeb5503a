"""Jobs of whole models: prompts and generations of a GGUF file's model, or of seeded ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.job import ArmKind, Mode, PlannedJob, Source
from vkbench.words import names
from vkbench_scheduler.planning.selection import ALL, AUTO, ModelFile, Selection
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import GENERATE, PROMPT, VARIANTS, ModelCase, model_case, name_of
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.making.seeded import seeded_of

GENERATED: Final = 128  # tokens, where nothing else is asked for
MEASURE_SECONDS: Final = 2.0  # of a timing, if nothing else is asked for
_LEAST_LIMIT_SECONDS: Final = 180.0  # of a job: its weights are loaded, and judged on the host
_LOADED: Final = 50e6  # bytes a second that are loaded at least
_READY: Final = 1e9  # bytes a second that are expected
_READ: Final = 2e3  # tokens of all sequences a second that are read at least, all readings together
_READ_SOON: Final = 5e4  # that are expected


def model_from(
    path: Path,
    prompts: Sequence[int],
    generated: Sequence[int] | None,
    batches: Sequence[int] = (1,),
    context: int = 0,
    cache: str = "f16",
) -> ModelFile:
    """The cases of a file's model: each prompt and generation at each batch size.

    `generated` is None for what is usual: a number of tokens, or none of an encoder.
    UsageError if the model is not supported, or a size makes no sense.
    """
    file = open_gguf(path)
    name = name_of(file)
    if generated is None:
        generated = () if hyper_of(file).architecture.encodes else (GENERATED,)
    phases = [*((PROMPT, count) for count in prompts), *((GENERATE, count) for count in generated)]
    if not phases:
        raise UsageError("--prompt and --generate are both 0: nothing is left to run")
    cases = [
        ModelCase(
            model=name, phase=phase, tokens=count, batch=batch, context=context, cache=cache
        ).case.name
        for batch, (phase, count) in product(batches, phases)
    ]
    for posed in sorted(map(model_case, cases), key=lambda case: -case.room):
        posed.read_hyper(file)
    return ModelFile(
        source=Source(path=str(path.resolve()), tensor=""),
        cases=tuple(dict.fromkeys(cases)),
        bytes=sum(tensor.bytes for tensor in file.tensors.values()),
    )


def model_jobs(
    selection: Selection, devices: Sequence[DeviceFacts], peers: Sequence[str] = ()
) -> Iterator[PlannedJob]:
    """The jobs of a selection's model on each device."""
    model = selection.model
    assert model
    for facts, _ in product(devices, range(selection.repeat)):
        for case, (mode, variant) in product(model.cases, tasks_of(selection, peers)):
            job = _job(facts, case, mode, variant, selection, model.bytes, MEASURE_SECONDS)
            yield replace(job, source=model.source)


def tasks_of(selection: Selection, peers: Sequence[str]) -> list[tuple[Mode, str]]:
    """Mode and variant of each job of a model's case: code paths, and peers behind them.

    A program has one path, which it times and does not judge.
    """
    if selection.program:
        return [(Mode.PERFORMANCE, selection.program)]
    own_tasks = [(mode_of(selection), variant) for variant in paths(selection)]
    return [*own_tasks, *((Mode.PEER, peer) for peer in peers)]


def seeded_job(
    facts: DeviceFacts, case: str, mode: Mode, variant: str, selection: Selection, seconds: float
) -> PlannedJob:
    """The job of a seeded model's case: whoever runs it makes the file."""
    model = seeded_of(case)
    assert model
    mode = mode if mode is Mode.PEER else mode_of(selection)
    return _job(facts, case, mode, variant, selection, model.plan.size, seconds)


def mode_of(selection: Selection) -> Mode:
    """The mode of a model's jobs; a timing checks the results too."""
    return Mode.CORRECTNESS if selection.mode is Mode.CORRECTNESS else Mode.PERFORMANCE


def paths(selection: Selection) -> list[str]:
    """The code paths that a selection asks for."""
    variant = selection.variant.casefold()
    if variant == ALL:
        return list(VARIANTS)
    return [AUTO if variant == AUTO else names.pick(selection.variant, VARIANTS, "variant")]


def _job(
    facts: DeviceFacts,
    case: str,
    mode: Mode,
    variant: str,
    selection: Selection,
    size: int,
    seconds: float,
) -> PlannedJob:
    budget = selection.measure_seconds or seconds
    posed = model_case(case)
    tokens = posed.batch * posed.tokens
    limit = _LEAST_LIMIT_SECONDS + size / _LOADED + tokens / _READ
    return PlannedJob(
        device=facts.key,
        case=case,
        mode=mode,
        variant=variant,
        bundle=selection.bundle,
        arm_kind=ArmKind.BUILD if selection.program else ArmKind.BUNDLE,
        limit_seconds=max(selection.limit_seconds, limit),
        measure_seconds=budget,
        noise=selection.noise,
        estimate_seconds=budget + size / _READY + tokens / _READ_SOON,
    )
