"""Measures suspected changes again, without being asked: queues pairs, judges them, queues more.

`vkbench_detection` decides what is measured and what the pairs mean; this module makes the runs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from vkbench.process import log
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db.database import Database, watch_alone
from vkbench_db.work.runs import cancel
from vkbench_detection.changes.questions import is_any_suspected
from vkbench_detection.changes.transitions import apply
from vkbench_detection.confirm import confirmations
from vkbench_detection.confirm.confirmations import PATIENCE_SECONDS, Running, first_pairs
from vkbench_detection.confirm.fleet import device_ids, served_devices
from vkbench_detection.confirm.pairs import is_pending, pair_results
from vkbench_detection.confirm.turns import Only, next_turn
from vkbench_detection.confirm.waiting import Arms, Waiting
from vkbench_detection.steps import conclude
from vkbench_scheduler.planning.pairs import PairPlan, more_pairs, submit_pairs

LABEL = "confirm"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Begun:
    """The runs that a turn began, and the changes that it settled without pairs."""

    runs: Sequence[int] = ()
    concluded: Sequence[int] = ()  # changes


def step(database: Database, now: float) -> None:
    """Look at what was measured, and send the next pairs."""
    ended = look(database, now)
    begin(database, now)
    if ended:
        conclude(database, now)


def look(database: Database, now: float) -> int:
    """Look at confirmations whose pairs have ended; return how many of them are over."""
    with database.reading() as tx:
        ready = [
            confirmation
            for confirmation in confirmations.running(tx)
            if _is_ready(tx, confirmation, now)
        ]
    return sum(_look(database, confirmation, now) for confirmation in ready)


def begin(
    database: Database,
    now: float,
    devices: Collection[str] | None = None,
    only: Only = lambda change: True,
) -> Begun:
    """Send the first pairs of suspicions that `only` admits; conclude what pairs cannot tell.

    `devices` are keys; without them, the devices that a worker serves are measured on.
    """
    with database.reading() as tx:
        if not is_any_suspected(tx):
            return Begun()
    with database.transaction() as tx:
        watch_alone(tx)
        able = served_devices(tx, now) if devices is None else device_ids(tx, devices)
        turn = next_turn(tx, able, now, only)
        apply(tx, turn.decisions, now)
        runs = [
            _submit(tx, suspicion, suspicion.arms, now)
            for suspicion in turn.measured
            if suspicion.arms
        ]
    if runs:
        log.event(_log, "confirmations_begun", runs=len(runs), suspected=turn.suspected)
    return Begun(runs=runs, concluded=[decision.change for decision in turn.decisions])


def _is_ready(tx: Connection, confirmation: Running, now: float) -> bool:
    is_old = now - confirmation.created_at > PATIENCE_SECONDS
    return is_old or not is_pending(tx, confirmation.run)


def _look(database: Database, confirmation: Running, now: float) -> bool:
    """Advance a confirmation; whether it is over now."""
    with database.transaction() as tx:
        watch_alone(tx)
        if confirmation not in confirmations.running(tx):
            return False  # another scheduler took it further
        results = pair_results(tx, confirmation.run)
        if results.pending:
            cancel(tx, confirmation.run, now)
            confirmations.abandon(tx, confirmation, now)
            return True
        judgement = confirmations.judge(tx, confirmation, results)
        if judgement.more:
            confirmations.extend(tx, confirmation, judgement.more)
            more_pairs(tx, confirmation.run, judgement.more)
            return False
        confirmations.finish(tx, confirmation, judgement, now)
    return True


def _submit(tx: Connection, waiting: Waiting, arms: Arms, now: float) -> int:
    pairs = first_pairs(arms)
    run = submit_pairs(
        tx,
        PairPlan(
            case=waiting.case,
            variant=waiting.variant,
            metric=waiting.metric,
            old=arms.old,
            new=arms.new,
        ),
        devices=[waiting.device],
        count=pairs,
        now=now,
        words=RunWords(
            label=f"{LABEL} {waiting.change}",
            purpose=Purpose(kind=RunKind.CONFIRMATION, about={"change": waiting.change}),
        ),
    )
    confirmations.begin(tx, waiting.change, run, pairs, now)
    return run
