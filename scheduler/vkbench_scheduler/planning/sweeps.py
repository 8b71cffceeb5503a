"""Sweeps: each case timed with every configuration that may be the fastest on a device.

A sweep is a run like any other, so that its jobs are judged, timed, stored and exported as all are.
It joins no history: what it tries is slow on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from vkbench.case import MODEL, Case
from vkbench.configuration import variant_of
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UsageError
from vkbench.job import Mode, PlannedJob
from vkbench.messages import wire
from vkbench.run import Purpose, RunKind, RunWords
from vkbench.selector import choose
from vkbench_db.database import Database
from vkbench_db.upkeep.tuning import EVERY, SWEEP, UNKEPT
from vkbench_scheduler.planning.plan import EVERYTHING, Task, job_of, tasks
from vkbench_scheduler.planning.selection import ALL, AUTO, Selection
from vkbench_scheduler.planning.submit import Submitted
from vkbench_scheduler.planning.submit import submit as submit_run
from vkbench_scheduler.planning.suites import Suite, suite_named
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.tuning.configurations import configurations, configurations_of, obstacle

SUITE = "tuning"  # what a sweep times if nothing is chosen
SECONDS = 0.2  # of samples of one metric
SETTINGS = 12  # of a variant, the best estimated ones
MOST_TOLD = 2  # reasons why a variant runs nowhere
ROUNDS = 2  # each configuration is timed so often, some time apart


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """How much a sweep tries."""

    settings: int = SETTINGS
    rounds: int = ROUNDS


def submit(
    database: Database,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    sweep: Sweep,
    *,
    bundle: Bundle | None = None,
    user: str = "",
) -> Submitted:
    """Store a sweep over the cases of a selection, on those of the known devices that it names."""
    about = {SWEEP: wire.to_builtins(sweep)}
    if names := list_unkept_cases(selection):
        about[UNKEPT] = names
    return submit_run(
        database,
        replace(selection, mode=Mode.PERFORMANCE, track=""),
        devices,
        bundle=bundle,
        planner=partial(plan, sweep),
        words=RunWords(user=user, purpose=Purpose(kind=RunKind.SWEEP, about=about)),
    )


def plan(sweep: Sweep, selection: Selection, devices: Sequence[DeviceFacts]) -> list[PlannedJob]:
    """The jobs of a sweep, the first configuration of each case being what `auto` would take.

    Cases that leave a device no choice have none; NothingToDo if no case leaves one.
    """
    suite, variant = _suite(selection), _variant(selection)
    chosen = _tasks(selection)
    jobs: list[PlannedJob] = []
    obstacles: dict[str, None] = {}
    for facts in choose(selection.devices, devices):
        # of each device by itself: a suite may name a case for GPUs and once more for CPUs
        by_case = {task.case: task for task in chosen if task.is_for(facts)}
        once = [
            job_of(facts, replace(task, variant=name), selection, suite)
            for task in by_case.values()
            for name in _names(task.case, facts, variant, sweep.settings)
        ]
        jobs += once * sweep.rounds
        if variant:
            obstacles |= {_obstacle(case, facts, variant): None for case in by_case}
    if not jobs:
        raise NothingToDo(
            f"there is nothing to tune: {_why(variant, list(filter(None, obstacles)))}"
        )
    return jobs


def list_unkept_cases(selection: Selection) -> list[str]:
    """The cases whose findings are not stored, as `auto` never takes the variant; or EVERY."""
    variant = _variant(selection)
    if not variant:
        return []
    cases = list(dict.fromkeys(task.case for task in _tasks(selection)))
    unkept = [case.name for case in cases if _is_by_name(problem(case), variant)]
    return [EVERY] if len(unkept) == len(cases) else unkept


def _suite(selection: Selection) -> Suite:
    return suite_named(selection.suite) if selection.suite else EVERYTHING


def _tasks(selection: Selection) -> list[Task]:
    chosen = tasks(_suite(selection), selection)
    return [task for task in chosen if task.case.kernel != MODEL]


def _variant(selection: Selection) -> str:
    """The variant whose settings are swept; "" for those that `auto` may take."""
    name = selection.variant
    if name.casefold() in (AUTO, ALL):
        return ""
    if (variant := variant_of(name)) != name:
        raise UsageError(
            f"a sweep chooses the settings: name the variant without settings: --variant {variant}"
        )
    return variant


def _names(case: Case, device: DeviceFacts, variant: str, most: int) -> list[str]:
    """The configuration that `auto` takes, and those to compare with it, of one variant or all.

    Those of the variant alone, if `auto` never takes it. None where there is no choice.
    """
    posed = problem(case)
    if variant and _is_by_name(posed, variant):
        options = configurations_of(posed.kernel.variant(variant), posed, device, most)
    else:
        options = configurations(posed, device, most)
        name = variant and posed.kernel.variant(variant).name
        options = [
            *options[:1],
            *(
                configuration
                for configuration in options[1:]
                if name in ("", configuration.variant)
            ),
        ]
    return [configuration.name for configuration in options] if len(options) > 1 else []


def _is_by_name(posed: Problem, variant: str) -> bool:
    """Whether a case's variant runs only by its name, never by `auto`."""
    return posed.kernel.variant(variant).choice.only_by_name(posed.types)


def _obstacle(case: Case, device: DeviceFacts, variant: str) -> str:
    """Why a variant cannot run a case on a device; "" if it can."""
    posed = problem(case)
    declared = posed.kernel.variant(variant)
    settings = next(iter(posed.candidates(device, declared)), posed.settings)
    return obstacle(replace(posed, settings=settings), declared, device)


def _why(variant: str, obstacles: Sequence[str]) -> str:
    if not obstacles:
        return "what was chosen has one configuration on each device"
    reasons = [*obstacles[:MOST_TOLD]]
    if more := len(obstacles) - len(reasons):
        reasons.append(f"and {more} more")
    return f"variant {variant} cannot run: {'; '.join(reasons)}"
