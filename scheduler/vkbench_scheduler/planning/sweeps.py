"""Sweeps: each case timed with every configuration that may be the fastest on a device.

A sweep is a run like any other, so that its jobs are judged, timed, stored and exported as all are.
It joins no history: what it tries is slow on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from vkbench import wire
from vkbench.case import MODEL, Case
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo
from vkbench.job import Mode, PlannedJob
from vkbench.selector import choose
from vkbench_db.database import Database
from vkbench_db.upkeep.tuning import SWEEP
from vkbench_scheduler.planning.plan import EVERYTHING, job_of, tasks
from vkbench_scheduler.planning.selection import ALL, AUTO, Selection
from vkbench_scheduler.planning.submit import Submitted
from vkbench_scheduler.planning.submit import submit as submit_run
from vkbench_scheduler.planning.suites import suite_named
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.tuning.configurations import configurations

SUITE = "tuning"  # what a sweep times if nothing is chosen
SECONDS = 0.2  # of samples of one metric
SETTINGS = 12  # of a variant, the best estimated ones
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
    return submit_run(
        database,
        replace(selection, mode=Mode.PERFORMANCE, track=""),
        devices,
        bundle=bundle,
        user=user,
        tags={SWEEP: wire.to_builtins(sweep)},
        planner=partial(plan, sweep),
    )


def plan(sweep: Sweep, selection: Selection, devices: Sequence[DeviceFacts]) -> list[PlannedJob]:
    """The jobs of a sweep, the first configuration of each case being what `auto` would take.

    Cases that leave a device no choice have none; NothingToDo if no case leaves one.
    """
    suite = suite_named(selection.suite) if selection.suite else EVERYTHING
    chosen = [task for task in tasks(suite, selection) if task.case.kernel != MODEL]
    found: list[PlannedJob] = []
    for facts in choose(selection.devices, devices):
        # of each device by itself: a suite may name a case for GPUs and once more for CPUs
        wanted = {task.case: task for task in chosen if task.is_for(facts)}
        once = [
            job_of(facts, replace(task, variant=name), selection, suite)
            for task in wanted.values()
            for name in _names(task.case, facts, selection.variant, sweep.settings)
        ]
        found += once * sweep.rounds
    if not found:
        raise NothingToDo(
            "there is nothing to tune: what was chosen has one configuration on each device"
        )
    return found


def _names(case: Case, device: DeviceFacts, variant: str, most: int) -> list[str]:
    """What `auto` would take, and the configurations of one variant or of all to hold against it.

    None where there is no choice.
    """
    found = configurations(problem(case), device, most)
    if variant.casefold() not in (AUTO, ALL):
        found = [*found[:1], *(each for each in found[1:] if each.variant == variant.casefold())]
    return [each.name for each in found] if len(found) > 1 else []
