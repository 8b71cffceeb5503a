"""A try-out on the devices of this machine, with no server, until its time is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_detection.confirm.pairs import is_pending
from vkbench_local.executor import Executor, Show, stoppable, stopped_after
from vkbench_scheduler.planning.tryouts import add_round, cancel_rest

PATIENCE_SECONDS: Final = 3.0  # past the end of the time, with a pair that has begun


def time_rounds(
    database: Database,
    settings: Settings,
    run: int,
    devices: Sequence[DeviceFacts],
    seconds: float,
    show: Show,
) -> bool:
    """Time pairs of a try-out until nothing is open or the time is over; False: it was stopped.

    What was not begun is cancelled, and so is a pair that does not end soon after. `show` shows how
    far a round is.
    """
    executor = Executor(database, settings, lambda result: None, stays=True)
    try:
        with stoppable(executor), stopped_after(executor, seconds, PATIENCE_SECONDS):
            while True:
                with show(run) as view:
                    executor.follow(view)
                    executor.work(run, devices)
                if executor.stopped:
                    break
                _check_done(database, run)
                if not add_round(database, run):
                    break
    finally:
        broken_off = [] if executor.interrupted else executor.broken_off
        executor.close()
        cancel_rest(database, run, broken_off)
    return not executor.interrupted


def _check_done(database: Database, run: int) -> None:
    with database.reading() as tx:
        if is_pending(tx, run):
            raise NothingToDo(f"run {run} is not done: is the device paused?")
