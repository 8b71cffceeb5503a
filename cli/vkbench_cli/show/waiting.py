"""Waiting for a run of the fleet."""

from __future__ import annotations

import time

from vkbench.errors import WaitTimeout
from vkbench_cli.show.progress import Progress
from vkbench_db.database import Database
from vkbench_db.work import store

LOOK_SECONDS = 0.5


def wait_for(database: Database, run: int, timeout: float | None = None) -> None:
    """Return when a run has ended; WaitTimeout when that takes longer than `timeout` seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    with Progress(_look(database, run).total, f"run {run}") as progress:
        while not (found := _look(database, run)).is_finished:
            progress.update(found.finished)
            if end and time.monotonic() >= end:
                left = found.total - found.finished
                raise WaitTimeout(
                    f"{left} of {found.total} jobs of run {run} are unfinished "
                    f"after {timeout:g} s; they continue: `vkbench jobs {run}`"
                )
            time.sleep(LOOK_SECONDS)


def _look(database: Database, run: int) -> store.Progress:
    with database.reading() as tx:
        return store.run_progress(tx, run)
