"""The watch: the steps that judge results and act on the verdicts, each taken when it is due.

It is the scheduler's third thread. Alerts are the fourth, so that a slow receiver of messages keeps
no result waiting. Each step is a row of `steps`: what it does, and how often. Steps keep nothing
between two turns and have transactions of their own, so that several schedulers may take them. A
step that fails is logged, and the others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vkbench.errors import ServiceUnreachable
from vkbench.process import log
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.work import arrivals
from vkbench_detection.find import history
from vkbench_detection.series import calibrations
from vkbench_detection.steps import catch_up, conclude, detect, scan
from vkbench_detection.tune import sweeps
from vkbench_scheduler.watch import (
    alerts,
    bisect,
    confirm,
    falls,
    health,
    pauses,
    schedules,
    strangers,
    suspects,
)

SCANNED = 100  # series of a turn, some hundred ms; each transaction has fewer, so others may write

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class WatchStep:
    """A step that is taken again and again."""

    name: str
    seconds: float  # from one time to the next
    act: Callable[[Database, float], None]  # takes the database and the time


class Watch:
    """Takes each step when it is due."""

    def __init__(self, database: Database, steps: Sequence[WatchStep]) -> None:
        self._database = database
        self._steps = steps
        self._due = dict.fromkeys((step.name for step in steps), 0.0)  # monotonic

    def turn(self) -> None:
        """Take all steps that are due; ServiceUnreachable, and nothing else, ends it early."""
        for step in self._steps:
            if time.monotonic() >= self._due[step.name]:
                self._take(step)
                self._due[step.name] = time.monotonic() + step.seconds

    def _take(self, step: WatchStep) -> None:
        try:
            step.act(self._database, time.time())
        except ServiceUnreachable:
            raise  # no step could go on: the caller waits
        except Exception:
            _log.exception(f"step_{step.name}_failed")


def place(database: Database, now: float) -> None:
    """Put new results into their series, screen them, and group confirmed changes."""
    detected = detect(database, now)
    if detected.jobs:
        log.event(_log, "results_placed", logging.DEBUG, jobs=detected.jobs)
    if detected.suspects:
        suspects.check(database, detected.suspects, now)
    if detected.suspected or detected.verdicts:
        counts = {"suspected": len(detected.suspected), "verdicts": len(detected.verdicts)}
        log.event(_log, "changes_found", **counts)


def finish(database: Database, now: float) -> None:
    """Finish screening and grouping that an earlier process left undone."""
    changes = catch_up(database, now)
    if changes:
        log.event(_log, "changes_found", suspected=len(changes), verdicts=0)


def calibrate(database: Database, now: float) -> None:
    """Store what devices reach, from finished runs of the calibration suite."""
    with database.transaction() as tx:
        devices = calibrations.settle(tx, now)
    if devices:
        log.event(_log, "calibrated", devices=devices)


def tune(database: Database, now: float) -> None:
    """Store the fastest configurations that finished sweeps found."""
    with database.transaction() as tx:
        cases = sweeps.settle(tx)
    if cases:
        log.event(_log, "tuned", cases=cases)


def look_back(database: Database, now: float) -> None:
    """Look for level shifts in whole series, each a day after its first new result."""
    with database.reading() as tx:
        due = history.due_series(tx, now, SCANNED)
    if due and scan(database, due, now):
        conclude(database, now)


def settle(database: Database, now: float) -> None:
    """Finish storing or cancelling many jobs that a process began before it died."""
    with database.reading() as tx:
        runs = arrivals.unsettled_runs(tx)
    for run in runs:
        arrivals.settle(database, run, now)


def end(database: Database, now: float) -> None:
    """End regressions and suspicions on devices that are gone for long."""
    conclude(database, now)


def steps() -> tuple[WatchStep, ...]:
    """The steps that store and judge results."""
    return (
        WatchStep(name="finish", seconds=60.0, act=finish),
        WatchStep(name="calibrate", seconds=5.0, act=calibrate),
        WatchStep(name="tune", seconds=5.0, act=tune),
        WatchStep(name="place", seconds=0.5, act=place),
        WatchStep(name="confirm", seconds=1.0, act=confirm.step),
        WatchStep(name="bisect", seconds=1.0, act=bisect.step),
        WatchStep(name="health", seconds=2.0, act=health.step),
        WatchStep(name="schedule", seconds=1.0, act=schedules.step),
        WatchStep(name="peers", seconds=15.0, act=falls.look),
        WatchStep(name="settle", seconds=60.0, act=settle),
        WatchStep(name="end", seconds=3600.0, act=end),
        WatchStep(name="history", seconds=0.25, act=look_back),
    )


def telling(settings: Settings) -> tuple[WatchStep, ...]:
    """The steps that wait for other servers to answer."""
    return (
        WatchStep(
            name="alert",
            seconds=1.0,
            act=lambda database, now: alerts.step(database, settings, now),
        ),
        WatchStep(
            name="pauses",
            seconds=alerts.FIRST_RETRY_SECONDS / 2,
            act=lambda database, now: pauses.step(database, settings, now),
        ),
        WatchStep(
            name="falls",
            seconds=alerts.FIRST_RETRY_SECONDS / 2,
            act=lambda database, now: falls.step(database, settings, now),
        ),
        WatchStep(
            name="suspects",
            seconds=alerts.FIRST_RETRY_SECONDS / 2,
            act=lambda database, now: suspects.step(database, settings, now),
        ),
        WatchStep(
            name="strangers",
            seconds=alerts.FIRST_RETRY_SECONDS / 2,
            act=lambda database, now: strangers.step(database, settings, now),
        ),
    )
