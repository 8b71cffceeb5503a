"""A bisection that this machine does with no server, or for which it makes the builds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo
from vkbench.programs.making import never
from vkbench.settings import Settings
from vkbench.words.visible import visible
from vkbench_db.database import Database
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import RUNNING, Bisection
from vkbench_detection.bisect.course import open_steps
from vkbench_detection.confirm.pairs import pair_results
from vkbench_local.executor import Executor, Show, stoppable
from vkbench_local.machine import all_devices
from vkbench_local.making import Workshop
from vkbench_scheduler.watch.bisect import step_one

LOOK_SECONDS: Final = 0.5


def devices_of(database: Database, number: int) -> list[DeviceFacts]:
    """The devices of a bisection that this machine has; NothingToDo if it has none of them."""
    with database.reading() as tx:
        keys = bisections.find(tx, number).devices
    here = [facts for facts in all_devices() if facts.key in keys]
    if not here:
        raise NothingToDo(f"bisection {number} is for a device of another machine")
    return here


def search(
    database: Database,
    settings: Settings,
    number: int,
    devices: Sequence[DeviceFacts],
    show: Show,
    workshop: Workshop,
) -> bool:
    """Measure until a bisection ends; return whether it did, or was stopped.

    `show` shows how far each of its runs is; the workshop makes builds when their turn comes.
    """
    executor = Executor(database, settings, lambda result: None)
    told_steps: set[int] = set()
    with stoppable(executor):
        while not executor.stopped:
            step_one(database, number, time.time())
            with database.reading() as tx:
                bisection = bisections.find(tx, number)
            _tell(bisection, told_steps)
            if bisection.state != RUNNING:
                return True
            if workshop.make_next(database, bisection, lambda: executor.stopped):
                continue
            for step in bisection.steps:
                if not step.verdict and not executor.stopped:
                    with show(step.run) as view:
                        executor.follow(view)
                        executor.work(step.run, devices)
                    _check(database, executor, step.run)
    return False


def feed(
    database: Database, number: int, workshop: Workshop, wait: Callable[[int], object]
) -> None:
    """Make the builds that the fleet's bisection asks for, until it ends.

    `wait` returns when a run of it has ended.
    """
    told_steps: set[int] = set()
    while True:
        with database.reading() as tx:
            bisection = bisections.find(tx, number)
        _tell(bisection, told_steps)
        if bisection.state != RUNNING:
            return
        if workshop.make_next(database, bisection, never):
            continue
        for step in open_steps(bisection):
            wait(step.run)
        time.sleep(LOOK_SECONDS)  # the scheduler looks at what has ended once a second


def _check(database: Database, executor: Executor, run: int) -> None:
    with database.reading() as tx:
        left = pair_results(tx, run).pending
    if left and not executor.stopped:
        raise NothingToDo(f"{left} jobs of run {run} are not done: is the device paused?")


def _tell(bisection: Bisection, told_steps: set[int]) -> None:
    """Print each step when it has its verdict."""
    for step in bisection.steps:
        if step.verdict and step.position not in told_steps:
            told_steps.add(step.position)
            ratio = f", ratio {step.ratio:.3f} after {step.pairs} pairs" if step.ratio else ""
            label = bisection.candidates[step.position].label
            print(visible(f"{label}: {step.verdict}{ratio}"), file=sys.stderr)
