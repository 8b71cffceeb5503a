"""Suspicions measured again on the devices of this machine, with no server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo
from vkbench.settings import Settings
from vkbench.words.visible import visible
from vkbench_db.database import Database
from vkbench_detection.confirm import confirmations
from vkbench_detection.confirm.confirmations import Confirmed
from vkbench_detection.confirm.pairs import is_pending
from vkbench_detection.confirm.waiting import Waiting
from vkbench_detection.steps import conclude
from vkbench_local.executor import Executor, Show, stoppable
from vkbench_scheduler.watch import confirm


def confirm_here(
    database: Database,
    settings: Settings,
    devices: Sequence[DeviceFacts],
    change: int | None,
    show: Show,
) -> bool:
    """Measure until nothing is suspected on these devices; return whether it ended, unstopped.

    With `change`, measure that change alone. `show` shows how far each of its runs is.
    """
    executor = Executor(database, settings, lambda result: None)

    def is_wanted(waiting: Waiting) -> bool:
        return change in (None, waiting.change)

    with stoppable(executor):
        while not executor.stopped:
            begun = confirm.begin(database, time.time(), _keys(devices), is_wanted)
            _say(database, begun.concluded)
            runs = _runs(database, devices)
            if not runs:
                break
            for run in runs:
                if not executor.stopped:
                    with show(run) as view:
                        executor.follow(view)
                        executor.work(run, devices)
                    _look(database, executor, run, devices)
    conclude(database, time.time())
    return not executor.stopped


def _look(database: Database, executor: Executor, run: int, devices: Sequence[DeviceFacts]) -> None:
    if executor.stopped:
        return
    if run in _runs(database, devices) and _is_pending(database, run):
        raise NothingToDo(f"run {run} is not done: is the device paused?")
    confirm.look(database, time.time())
    if run not in _runs(database, devices):
        with database.reading() as tx:
            change = confirmations.measured_by(tx, run)
        _say(database, [change])


def _say(database: Database, changes: Iterable[int]) -> None:
    """Say what was decided about changes, and why."""
    with database.reading() as tx:
        decided = [confirmations.decided_about(tx, change) for change in changes]
    for decision in decided:
        print(visible(_line(decision)), file=sys.stderr)


def _keys(devices: Sequence[DeviceFacts]) -> list[str]:
    return [facts.key for facts in devices]


def _runs(database: Database, devices: Sequence[DeviceFacts]) -> list[int]:
    """Runs of confirmations on these devices that have not ended."""
    with database.reading() as tx:
        return [waiting.run for waiting in confirmations.running(tx, _keys(devices))]


def _is_pending(database: Database, run: int) -> bool:

    with database.reading() as tx:
        return is_pending(tx, run)


def _line(decision: Confirmed) -> str:
    cause = f" ({decision.cause})" if decision.cause else ""
    where = f"{decision.case} {decision.metric}"
    return f"change {decision.change}, {where}: {decision.state}{cause}, {decision.note}"
