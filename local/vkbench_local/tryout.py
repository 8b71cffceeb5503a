"""A try-out on the devices of this machine, with no server, until its time is over."""

from __future__ import annotations

import time
from collections.abc import Sequence

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.work.arrivals import cancel_run
from vkbench_detection.compare.tryouts import next_round
from vkbench_detection.confirm.pairs import is_pending
from vkbench_local.executor import Executor, Show, stoppable, stopped_after
from vkbench_scheduler.planning.pairs import more_pairs


def time_rounds(
    database: Database,
    settings: Settings,
    run: int,
    devices: Sequence[DeviceFacts],
    seconds: float,
    show: Show,
) -> bool:
    """Time pairs of a try-out until nothing is open or the time is over; False: it was stopped.

    What was not begun is cancelled. `show` shows how far a round is.
    """
    executor = Executor(database, settings, lambda result: None)
    with stoppable(executor), stopped_after(executor, seconds):
        while not executor.stopped:
            with show(run) as view:
                executor.follow(view)
                executor.work(run, devices)
            if not executor.stopped and not _add_round(database, run):
                break
    cancel_run(database, run, time.time())
    return not executor.interrupted


def _add_round(database: Database, run: int) -> bool:
    """Add a pair for each case that needs one; False if none does."""
    with database.transaction() as tx:
        if is_pending(tx, run):
            raise NothingToDo(f"run {run} is not done: is the device paused?")
        again = next_round(tx, run)
        more_pairs(tx, run, 1, again)
    return bool(again)
