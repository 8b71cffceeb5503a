"""Suspicions are measured again, nobody need ask: pairs are sent, looked at, and sent again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from sqlalchemy import Connection, select

from vkbench import log
from vkbench_db import confirmations, models, turns
from vkbench_db.change_points import Standing
from vkbench_db.confirmations import FIRST_PAIRS, PATIENCE_SECONDS, Running, Waiting
from vkbench_db.database import Database, watch_alone
from vkbench_db.detection import conclude
from vkbench_db.fleet import served
from vkbench_db.pairs import is_pending, pair_results
from vkbench_db.runs import cancel
from vkbench_scheduler.pairs import more_pairs, submit_pairs

LABEL = "confirm"

_log = logging.getLogger(__name__)

Devices = Callable[[Connection, float], set[int]]


def step(database: Database, now: float) -> None:
    """Look at what was measured, and send the next pairs."""
    ended = look(database, now)
    begin(database, now)
    if ended:
        conclude(database, now)


def look(database: Database, now: float) -> int:
    """Look at confirmations whose pairs have ended; says how many of them are over."""
    with database.reading() as tx:
        ready = [each for each in confirmations.running(tx) if _is_ready(tx, each, now)]
    return sum(_look(database, each, now) for each in ready)


def begin(
    database: Database,
    now: float,
    devices: Devices = served,
    only: Callable[[Waiting], bool] = lambda waiting: True,
) -> list[int]:
    """Send the first pairs of suspicions on devices that can do them; says their runs."""
    with database.reading() as tx:
        if not _is_suspected(tx):
            return []
    with database.transaction() as tx:
        watch_alone(tx)
        waiting = [each for each in confirmations.waiting(tx, devices(tx, now), now) if only(each)]
        runs = [_submit(tx, each, now) for each in turns.choose(tx, waiting, _busy(tx), now)]
    if runs:
        log.event(_log, "confirmations_begun", runs=len(runs), suspected=len(waiting))
    return runs


def _is_ready(tx: Connection, confirmation: Running, now: float) -> bool:
    is_old = now - confirmation.created_at > PATIENCE_SECONDS
    return is_old or not is_pending(tx, confirmation.run)


def _look(database: Database, confirmation: Running, now: float) -> bool:
    with database.transaction() as tx:
        watch_alone(tx)
        if confirmation not in confirmations.running(tx):
            return False  # another scheduler's
        found = pair_results(tx, confirmation.run)
        if found.pending:
            cancel(tx, confirmation.run, now)
            confirmations.abandon(tx, confirmation, now)
            return True
        more = confirmations.look(tx, confirmation, found, now)
        if more:
            more_pairs(tx, confirmation.run, more)
    return not more


def _submit(tx: Connection, waiting: Waiting, now: float) -> int:
    run = submit_pairs(
        tx,
        devices=[waiting.device],
        case=waiting.case,
        variant=waiting.variant,
        metric=waiting.metric,
        old=waiting.old,
        new=waiting.new,
        count=FIRST_PAIRS,
        label=f"{LABEL} {waiting.change}",
        tags={"change_point": waiting.change},
        now=now,
    )
    confirmations.begin(tx, waiting.change, run, now)
    return run


def _is_suspected(tx: Connection) -> bool:
    change = models.ChangePoint
    asked = select(change.id).where(change.state == Standing.SUSPECTED).limit(1)
    return tx.execute(asked).first() is not None


def _busy(tx: Connection) -> Counter[int]:
    job, table = models.Job, models.Confirmation
    rows = tx.execute(
        select(job.device_id)
        .join(table, table.run_id == job.run_id)
        .where(table.finished_at.is_(None), job.position == 0)
    )
    return Counter(rows.scalars())
