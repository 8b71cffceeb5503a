"""A plan: the jobs of a selection on given devices, generated one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from math import inf, prod

from vkbench.case import MODEL, WEIGHTS, Case, is_model, with_seed
from vkbench.case import parse as parse_case
from vkbench.configuration import Configuration, parse
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UsageError, VkbenchError
from vkbench.job import CHECKS, PROPERTIES, ArmKind, Mode, PlannedJob
from vkbench.selector import choose
from vkbench.words import names
from vkbench_scheduler.planning.models import (
    mode_of,
    model_jobs,
    seeded_job,
    tasks_of,
)
from vkbench_scheduler.planning.own import chosen_of
from vkbench_scheduler.planning.peers import peers_for, peers_of
from vkbench_scheduler.planning.programs import cases_of_program, check_program, runs_models
from vkbench_scheduler.planning.selection import ALL, AUTO, Selection
from vkbench_scheduler.planning.suites import Suite, SuiteRow, suite_named
from vkbench_scheduler.planning.weights import on_weights
from vkbench_shaders.catalogue import KERNELS, expand, kernel_named, matching, problem
from vkbench_shaders.kernel import Problem, Settings
from vkbench_shaders.kernels.batches import parts
from vkbench_shaders.models.cases import VARIANTS, model_case
from vkbench_shaders.models.making.seeded import seeded_of

EVERYTHING = Suite(name="", description="The whole catalogue.", rows=(SuiteRow(),))
CHECK_SECONDS = 0.15  # estimate of a check until its device has run one
METRICS = 2  # hot and cold, or a peer and ours


@dataclass(frozen=True)
class Task:
    """A case, its mode (check, time or both) and the variant to run."""

    case: Case
    mode: Mode
    variant: str = AUTO
    times: int = 1  # so many jobs
    only: str = ""  # kind of devices, as in a suite's row

    def is_for(self, device: DeviceFacts) -> bool:
        """Whether the task is for this kind of device."""
        return not self.only or (device.type == "cpu") == (self.only == "cpu")


def plan(selection: Selection, devices: Sequence[DeviceFacts]) -> Iterator[PlannedJob]:
    """The jobs of a selection: the checks and timings of each device, `repeat` times.

    Whatever is wrong with the selection is said by the call, before the first job is taken.
    """
    chosen = choose(selection.devices, devices)
    check_program(selection)
    peers = peers_of(selection)
    if selection.model:
        return model_jobs(selection, chosen, peers)
    suite = suite_named(selection.suite) if selection.suite else EVERYTHING
    chosen_tasks = with_peers(tasks(suite, selection), peers)
    if chosen and not any(task.is_for(facts) for facts in chosen for task in chosen_tasks):
        kinds = " or ".join(sorted({f"{task.only.upper()}s" for task in chosen_tasks}))
        raise NothingToDo(f"what was chosen runs on {kinds} only, and no such device is among them")
    return _jobs(chosen, chosen_tasks, selection, suite)


def count(selection: Selection, devices: Sequence[DeviceFacts]) -> int:
    """How many jobs `plan` makes."""
    chosen = choose(selection.devices, devices)
    if selection.model:
        jobs = len(selection.model.cases) * len(tasks_of(selection, peers_of(selection)))
        return len(chosen) * jobs * selection.repeat
    suite = suite_named(selection.suite) if selection.suite else EVERYTHING
    chosen_tasks = with_peers(tasks(suite, selection), peers_of(selection))
    jobs = sum(task.times for facts in chosen for task in chosen_tasks if task.is_for(facts))
    return jobs * selection.repeat


def _jobs(
    devices: Sequence[DeviceFacts], chosen_tasks: Sequence[Task], selection: Selection, suite: Suite
) -> Iterator[PlannedJob]:
    for facts in devices:
        first = [
            job_of(facts, task, selection, suite)
            for task in chosen_tasks
            if task.is_for(facts)
            for _ in range(task.times)
        ]
        for turn in range(selection.repeat):
            yield from (_repeat_job(job, turn, selection) for job in first)


def _repeat_job(job: PlannedJob, turn: int, selection: Selection) -> PlannedJob:
    """The job for one repetition; a check gets other inputs each time, if the case has seeds."""
    if job.mode not in CHECKS:
        return job
    name = with_seed(job.case, turn)
    is_known = not selection.own or name in selection.own.seeded
    return replace(job, case=name) if is_known else job


def job_of(facts: DeviceFacts, task: Task, selection: Selection, suite: Suite) -> PlannedJob:
    """The job of a task on a device."""
    if is_model(task.case.name):
        return seeded_job(
            facts, task.case.name, task.mode, task.variant, selection, suite.measure_seconds
        )
    budget = selection.measure_seconds or suite.measure_seconds
    return PlannedJob(
        device=facts.key,
        case=task.case.name,
        mode=task.mode,
        variant=task.variant,
        bundle=selection.bundle,
        arm_kind=ArmKind.BUILD if selection.program else ArmKind.BUNDLE,
        limit_seconds=selection.limit_seconds,
        measure_seconds=budget,
        noise=selection.noise,
        estimate_seconds=_estimate(task.mode, budget),
        source=selection.weights.source if selection.weights else None,
    )


def _estimate(mode: Mode, budget: float) -> float:
    """Estimated seconds of a job, used until its device has run one like it."""
    return CHECK_SECONDS + (0.0 if mode in CHECKS else METRICS * budget)


def with_peers(chosen_tasks: Sequence[Task], peers: Sequence[str]) -> Sequence[Task]:
    """The tasks, with a task per peer behind the first timing of each case and device kind."""
    if not peers:
        return chosen_tasks
    ordered: dict[Task, None] = {}
    compared: set[tuple[str, str]] = set()  # cases, and the kind of devices that they are for
    for task in chosen_tasks:
        ordered[task] = None
        name = task.case.name
        able = peers_for(name, peers) if task.mode is Mode.PERFORMANCE else []
        if able and compared.isdisjoint({(name, ""), (name, task.only)}):
            compared.add((name, task.only))
            ordered |= {replace(task, mode=Mode.PEER, variant=peer): None for peer in able}
    if not compared:
        raise NothingToDo("none of the cases that were chosen is a timing that peers have, too")
    return list(ordered)


def tasks(suite: Suite, selection: Selection) -> list[Task]:
    """The tasks that a suite's rows and a selection share, each once."""
    if selection.own:
        return [Task(*choice) for choice in chosen_of(selection.own, selection)]
    chosen = _tasks_named_by(selection) if selection.cases else _of_rows(suite, selection)
    if selection.program:
        return _tasks_of_program(chosen, selection.program)
    if selection.variant.casefold() in (AUTO, ALL):
        return list(chosen)
    return _with_variant(chosen, selection.variant)


def _tasks_of_program(found: Iterable[Task], program: str) -> list[Task]:
    """The cases of the catalogue, once each, as a program that has no code paths does them."""
    cases = [
        task
        for task in found
        if not is_model(task.case.name) or (runs_models(program) and task.mode is Mode.PERFORMANCE)
    ]
    if not cases:
        raise NothingToDo(f"{program} judges single kernels, and a whole model was chosen")
    return list(dict.fromkeys(replace(task, variant=program) for task in cases))


def _of_rows(suite: Suite, selection: Selection) -> dict[Task, None]:
    _check_names(selection)
    complaints: list[VkbenchError] = []
    chosen = dict.fromkeys(
        task for row in suite.rows for task in _row_tasks(row, selection, complaints)
    )
    chosen |= dict.fromkeys(_model_tasks(suite, selection))
    if not chosen:
        raise complaints[0] if complaints else NothingToDo()
    return chosen


def _model_tasks(suite: Suite, selection: Selection) -> Iterator[Task]:
    """The tasks of a suite's models; none if the selection chooses among kernels."""
    if selection.kernels or selection.formats or selection.shapes or selection.weights:
        return
    if selection.mode in PROPERTIES:
        return
    variants = list(VARIANTS) if selection.variant.casefold() == ALL else [AUTO]
    for row in suite.models:
        for case, variant in product(row.cases, variants):
            yield Task(case, mode_of(selection), variant, only=row.only)


def _tasks_named_by(selection: Selection) -> dict[Task, None]:
    """The tasks of the cases that `--case` names, listed by the catalogue or not."""
    if selection.suite or selection.kernels or selection.formats or selection.shapes:
        raise UsageError(
            "--case names full cases: leave out --suite, --kernel, --format and --shape"
        )
    models = [name for name in selection.cases if is_model(name)]
    of_program = cases_of_program(selection)
    if models and selection.mode in PROPERTIES:
        raise UsageError(f"{models[0]} is a whole model's: --property is for kernels")
    for name in models:
        if not seeded_of(name):
            raise UsageError(f"{name} is a whole model's: give its file with --model")
    others = {*models, *of_program}
    cases = [problem(name).case for name in selection.cases if name not in others]
    from_file = [case.name for case in cases if WEIGHTS in case.params]
    if from_file and not selection.weights:
        raise UsageError(
            f"the weights of {from_file[0]} come from a file: give --gguf and --tensor"
        )
    every_path = selection.variant.casefold() == ALL
    kernel_tasks: dict[Task, None] = {
        Task(case, mode, path): None
        for case in cases
        for mode in _modes(SuiteRow(), selection)
        for path in (_paths(case) if every_path else [AUTO])
    }
    model_paths = product(models, VARIANTS if every_path else [AUTO])
    mode = Mode.CORRECTNESS if selection.mode is Mode.CORRECTNESS else Mode.PERFORMANCE
    kernel_tasks |= {Task(parse_case(name), mode): None for name in of_program}
    return kernel_tasks | {
        Task(model_case(name).case, mode_of(selection), path): None for name, path in model_paths
    }


def _check_names(selection: Selection) -> None:
    # A misspelt name is an error even where another one matches.
    for glob in selection.kernels:
        matching(glob)
    known = dict.fromkeys(fmt for kernel in KERNELS for fmt in kernel.bindings[0].types)
    for glob in selection.formats:
        names.matching(glob, known, "format")


def _row_tasks(
    row: SuiteRow, selection: Selection, complaints: list[VkbenchError]
) -> Iterator[Task]:
    kernel_names = {name for glob in selection.kernels or ("*",) for name in matching(glob)}
    kernels = [k.name for k in KERNELS if _fits(k.name, row.kernels) and k.name in kernel_names]
    shapes, formats = selection.shapes or ({},), selection.formats or ("*",)
    for mode, kernel, fmt, shape in product(_modes(row, selection), kernels, formats, shapes):
        try:
            cases = _cases(row, selection, kernel, fmt, shape, mode)
        except (UsageError, NothingToDo) as error:  # another kernel may have this format or shape
            complaints.append(error)
            continue
        variant = selection.variant.casefold()
        every_path = variant == ALL or (variant == AUTO and row.every_variant)
        for case in cases:
            paths = _paths(case) if every_path else _path(case, row.variant)
            yield from (Task(case, mode, path, row.times, row.only) for path in paths)


def _cases(
    row: SuiteRow, selection: Selection, kernel: str, fmt: str, shape: Mapping[str, int], mode: Mode
) -> list[Case]:
    timed = mode not in CHECKS
    if selection.weights:
        # The tensor says which format it is, whatever formats the suite would have chosen.
        declared = kernel_named(kernel)
        made = on_weights(
            declared, selection.weights, declared.timed if timed else declared.cases, shape
        )
        return _some([case for case in made if _fits(case.format, (fmt,))], row.most_cases)
    if row.cases and not selection.shapes:
        named = [problem(name).case for name in row.cases]
        return [case for case in named if case.kernel == kernel and _fits(case.format, (fmt,))]
    if not selection.shapes:
        any_format, batches = bool(selection.formats), mode is Mode.BATCH
        return list(_cases_of_row(row, kernel, fmt, timed, any_format=any_format, batches=batches))
    cases = expand(kernel, fmt, shape, timed=timed)
    return _some(
        [case for case in cases if selection.formats or _has_formats(row, case)], row.most_cases
    )


# Processes that serve plan the same suites again and again, and to size each case takes longest.
@lru_cache(maxsize=4096)
def _cases_of_row(
    row: SuiteRow, kernel: str, fmt: str, timed: bool, *, any_format: bool, batches: bool
) -> tuple[Case, ...]:
    """The catalogue's cases of a suite's row at the listed shapes."""
    cases = [
        case for case in expand(kernel, fmt, timed=timed) if any_format or _has_formats(row, case)
    ]
    small = [case for case in cases if _is_small(row, case)]
    if batches:  # of one row there is nothing to find out
        small = [case for case in small if any(parts(problem(case)))]
    return tuple(_some(small, row.most_cases))


def _has_formats(row: SuiteRow, case: Case) -> bool:
    posed = Problem(kernel_named(case.kernel), case)
    return all(_fits(fmt, row.formats) for fmt in posed.types.values())


def _is_small(row: SuiteRow, case: Case) -> bool:
    posed = Problem(kernel_named(case.kernel), case)
    return posed.flops <= row.most_flops and (
        row.most_bytes == inf or posed.storage_bytes <= row.most_bytes
    )


def _some(cases: Iterable[Case], most: int) -> list[Case]:
    """At most so many cases per set of formats, spread from plain to large; 0 means all."""
    if not most:
        return list(cases)
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in sorted(cases, key=lambda case: (len(case.params), prod(case.shape.values()))):
        key = (case.format, *(f"{name}={fmt}" for name, fmt in sorted(case.types.items())))
        groups.setdefault(key, []).append(case)
    return [case for group in groups.values() for case in _evenly(group, most)]


def _evenly(group: list[Case], count: int) -> list[Case]:
    last = len(group) - 1
    places = {last * place // (count - 1) for place in range(count)} if count > 1 else {0}
    return [group[place] for place in sorted(places)]


def _fits(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name.casefold(), glob.casefold()) for glob in globs)


def _modes(row: SuiteRow, selection: Selection) -> list[Mode]:
    if selection.mode is Mode.BATCH:
        return [] if row.mode is Mode.PERFORMANCE else [Mode.BATCH]
    if selection.mode is Mode.COMPILE:
        return [] if row.mode is Mode.CORRECTNESS else [Mode.COMPILE]
    chosen = {row.mode, selection.mode} - {Mode.BOTH}
    both = (Mode.CORRECTNESS, Mode.PERFORMANCE)
    return [mode for mode in both if not chosen or chosen == {mode}]


@lru_cache(maxsize=2**14)
def _paths(case: Case) -> tuple[str, ...]:
    posed = problem(case)
    return tuple(variant.name for variant in posed.kernel.variants_for(posed.types))


def _path(case: Case, variant: str) -> tuple[str, ...]:
    """The code path that a row asks for; none where the case has no such path."""
    return (variant,) if variant == AUTO or variant in _paths(case) else ()


def _variants(kernel: str) -> list[str]:
    return [variant.name for variant in kernel_named(kernel).variants]


def _with_variant(chosen: Iterable[Task], configuration: str) -> list[Task]:
    """The tasks whose kernels have the variant and the parameters of its settings."""
    has = {MODEL: list(VARIANTS), **{kernel.name: _variants(kernel.name) for kernel in KERNELS}}
    known = dict.fromkeys(name for task in chosen for name in has[task.case.kernel])
    parsed = parse(configuration)
    variant = names.pick(parsed.variant, [*known, AUTO, ALL], "variant")
    kept: list[Task] = []
    complaints: list[UsageError] = []
    for task in chosen:
        if variant not in has[task.case.kernel]:
            continue
        try:
            settings = _settings(task.case, parsed)
        except UsageError as error:
            complaints.append(error)
            continue
        name = Configuration(variant=variant, settings=settings).name
        kept.append(replace(task, variant=name))
    if complaints and not kept:
        raise complaints[0]
    return list(dict.fromkeys(kept))


def _settings(case: Case, configuration: Configuration) -> Settings:
    """The settings of a configuration, checked against the case's kernel."""
    if case.kernel != MODEL:
        return kernel_named(case.kernel).settings(configuration.settings)
    if configuration.settings:
        raise UsageError("the variants of whole models have no settings")
    return {}
