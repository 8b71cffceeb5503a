"""The watch: what results mean, and what follows from that. The scheduler's third thread, and
alerts its fourth: a receiver that takes its time keeps no result waiting.

Each step is a row of `steps`: how often it is taken, and what it does. Steps keep nothing between
two turns and have transactions of their own, so that several schedulers may take them; one that
fails is logged, and the others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vkbench import log
from vkbench.errors import ServiceUnreachable
from vkbench.settings import Settings
from vkbench_db import calibrations, history
from vkbench_db.database import Database
from vkbench_db.detection import catch_up, conclude, detect, scan
from vkbench_scheduler import alerts, bisect, confirm, schedules

SCANNED = 10  # series of a turn, after which others may write

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something to do again and again."""

    name: str
    seconds: float  # from one time to the next
    act: Callable[[Database, float], None]  # is told the time


class Watch:
    """Takes each step when it is due."""

    def __init__(self, database: Database, steps: Sequence[Step]) -> None:
        self._database = database
        self._steps = steps
        self._due = dict.fromkeys((step.name for step in steps), 0.0)  # monotonic

    def turn(self) -> None:
        """Take all steps that are due; ServiceUnreachable, and nothing else, ends it early."""
        for step in self._steps:
            if time.monotonic() >= self._due[step.name]:
                self._take(step)
                self._due[step.name] = time.monotonic() + step.seconds

    def _take(self, step: Step) -> None:
        try:
            step.act(self._database, time.time())
        except ServiceUnreachable:
            raise  # for all of them: the caller waits
        except Exception:
            _log.exception(f"step_{step.name}_failed")


def place(database: Database, now: float) -> None:
    """New results into their series, through the screen; what is certain into regressions."""
    found = detect(database, now)
    if found.jobs:
        log.event(_log, "results_placed", logging.DEBUG, jobs=found.jobs)
    if found.suspected or found.wrong:
        log.event(_log, "changes_found", suspected=len(found.suspected), wrong=len(found.wrong))


def finish(database: Database, now: float) -> None:
    """What somebody began and did not end."""
    found = catch_up(database, now)
    if found:
        log.event(_log, "changes_found", suspected=len(found), wrong=0)


def calibrate(database: Database, now: float) -> None:
    """Finished runs of the calibration suite into what their devices reach."""
    with database.transaction() as tx:
        found = calibrations.settle(tx, now)
    if found:
        log.event(_log, "calibrated", devices=found)


def look_back(database: Database, now: float) -> None:
    """Whole series, some at a time, each a day after its first new result."""
    with database.reading() as tx:
        due = history.due(tx, now, SCANNED)
    if due and scan(database, due, now):
        conclude(database, now)


def steps() -> tuple[Step, ...]:
    """Everything that is watched."""
    return (
        Step(name="finish", seconds=60.0, act=finish),
        Step(name="calibrate", seconds=5.0, act=calibrate),
        Step(name="place", seconds=0.5, act=place),
        Step(name="confirm", seconds=1.0, act=confirm.step),
        Step(name="bisect", seconds=1.0, act=bisect.step),
        Step(name="schedule", seconds=1.0, act=schedules.step),
        Step(name="history", seconds=0.25, act=look_back),
    )


def telling(ours: Settings) -> tuple[Step, ...]:
    """What waits for others to answer."""
    return (
        Step(name="alert", seconds=1.0, act=lambda database, now: alerts.step(database, ours, now)),
    )
