"""Suspicions measured again on the devices of this machine, with no server."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import Connection, select

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo
from vkbench.settings import Settings
from vkbench_cli.local import Executor, stoppable
from vkbench_db import confirmations, models
from vkbench_db.confirmations import Waiting
from vkbench_db.database import Database
from vkbench_db.detection import conclude
from vkbench_scheduler import confirm


def confirm_here(
    database: Database, ours: Settings, devices: Sequence[DeviceFacts], change: int | None
) -> bool:
    """Measure until nothing is suspected of these devices; whether it came to its end."""
    executor = Executor(database, ours, lambda result: None)

    def wanted(waiting: Waiting) -> bool:
        return change in (None, waiting.change)

    def here(tx: Connection, now: float) -> set[int]:
        return set(_ids(tx, devices))

    with suppress(KeyboardInterrupt), stoppable(executor):
        while not executor.stopped:
            confirm.begin(database, time.time(), here, wanted)
            runs = _runs(database, devices)
            if not runs:
                break
            for run in runs:
                if not executor.stopped:
                    _work(database, executor, run, devices)
    conclude(database, time.time())
    return not executor.stopped


def _work(database: Database, executor: Executor, run: int, devices: Sequence[DeviceFacts]) -> None:
    executor.work(run, devices)
    if executor.stopped:
        return
    if run in _runs(database, devices) and not _is_done(database, run):
        raise NothingToDo(f"run {run} is not done: is the device paused?")
    confirm.look(database, time.time())
    if run not in _runs(database, devices):
        print(_told(database, run), file=sys.stderr)


def _ids(tx: Connection, devices: Sequence[DeviceFacts]) -> Sequence[int]:
    device = models.Device
    keys = [facts.key for facts in devices]
    return tx.execute(select(device.id).where(device.key.in_(keys))).scalars().all()


def _runs(database: Database, devices: Sequence[DeviceFacts]) -> list[int]:
    """Confirmations of these devices that have not ended."""
    job = models.Job
    with database.reading() as tx:
        runs = [each.run for each in confirmations.running(tx)]
        mine = select(job.run_id).where(job.run_id.in_(runs), job.device_id.in_(_ids(tx, devices)))
        return sorted(set(tx.execute(mine).scalars()))


def _is_done(database: Database, run: int) -> bool:
    from vkbench_db.pairs import pair_results

    with database.reading() as tx:
        return pair_results(tx, run).pending == 0


def _told(database: Database, run: int) -> str:
    """What came of a confirmation, in a line."""
    table, change, event = models.Confirmation, models.ChangePoint, models.ChangePointEvent
    series, case = models.Series, models.KernelCase
    with database.reading() as tx:
        row = tx.execute(
            select(change.id, change.state, change.cause, case.name, series.metric, event.note)
            .join(table, table.change_point_id == change.id)
            .join(series, series.id == change.series_id)
            .join(case, case.id == series.case_id)
            .join(event, event.change_point_id == change.id)
            .where(table.run_id == run)
            .order_by(event.id.desc())
            .limit(1)
        ).one()
    cause = f" ({row.cause})" if row.cause else ""
    return f"change {row.id}, {row.name} {row.metric}: {row.state}{cause}, {row.note}"
