"""Confirmations: runs of pairs that measure a suspicion again, and what becomes of them.

Where the kernel changed and both bundles are kept, the old one runs beside the new one: if they
differ, the kernel is the cause. Where the driver changed and the host has both, they run in turns.
Else, or where they are equal, what was measured now is held
against the series: a shift that is gone was noise. One that stays is the environment's if that
changed, else the host's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection, insert, select, update

from vkbench.job import ArmKind
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_db.work.runs import cancel
from vkbench_detection.changes import transitions
from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.decisions import Conclusion, Decision, Reopening
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.drivers import FAILED, find_drivers
from vkbench_detection.confirm.levels import before_change
from vkbench_detection.confirm.pairs import PairResults
from vkbench_detection.confirm.remeasured import Remeasured, judge_change
from vkbench_detection.confirm.waiting import Arms
from vkbench_detection.find.verdict_changes import record_wrong_pairs

FIRST_PAIRS = 4  # of two bundles, or four values of one
MOST_PAIRS = 48  # asked for in all, those that failed too
PATIENCE_SECONDS = 86_400.0  # for pairs on a device that went away


@dataclass(frozen=True, kw_only=True)
class Running:
    """A confirmation whose pairs are asked for."""

    id: int
    change: int
    run: int
    pairs: int
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """What was decided about a change, in words for people."""

    change: int
    state: str
    cause: str
    case: str
    metric: str
    note: str


def running(tx: Connection, devices: Collection[str] | None = None) -> list[Running]:
    """Confirmations that have not ended; with `devices`, those on devices with these keys."""
    table, job, device = schema.confirmation.c, schema.job.c, schema.device.c
    numbers = {"change": table.change_point_id, "run": table.run_id}
    query = select_record(Running, schema.confirmation, **numbers).where(
        table.finished_at.is_(None)
    )
    if devices is not None:
        theirs = select(job.run_id).join(schema.device, device.id == job.device_id)
        query = query.where(table.run_id.in_(theirs.where(device.key.in_(devices))))
    return fetch(tx, query.order_by(table.id), Running)


def running_counts(tx: Connection) -> Mapping[int, int]:
    """How many confirmations run on each device, by its id."""
    job, table = schema.job.c, schema.confirmation.c
    rows = tx.execute(
        select(job.device_id)
        .join(schema.confirmation, table.run_id == job.run_id)
        .where(table.finished_at.is_(None), job.position == 0)
    )
    return Counter(rows.scalars())


def measured_by(tx: Connection, run: int) -> int:
    """The change that a run of pairs measured again."""
    table = schema.confirmation.c
    query = select(table.change_point_id).where(table.run_id == run)
    return int(tx.execute(query).scalar_one())


def decided_about(tx: Connection, number: int) -> Confirmed:
    """What was decided last about a change."""
    change, event = schema.change_point.c, schema.change_point_event.c
    series, case = schema.series.c, schema.kernel_case.c
    query = (
        select_record(
            Confirmed,
            *(schema.change_point, schema.series, schema.change_point_event),
            change=change.id,
            case=case.name,
        )
        .select_from(schema.change_point)
        .join(schema.series, series.id == change.series_id)
        .join(schema.kernel_case, case.id == series.case_id)
        .join(schema.change_point_event, event.change_point_id == change.id)
        .where(change.id == number)
        .order_by(event.id.desc())
        .limit(1)
    )
    return fetch(tx, query, Confirmed)[0]


def first_pairs(arms: Arms) -> int:
    """How many pairs are asked for first: those of one bundle have two values each."""
    return FIRST_PAIRS // 2 if arms.are_same else FIRST_PAIRS


def begin(tx: Connection, change: int, run: int, pairs: int, now: float) -> None:
    """Store that a run of pairs measures a suspicion again."""
    row = {
        "change_point_id": change,
        "run_id": run,
        "created_at": now,
        "pairs": pairs,
        "verdict": "",
    }
    tx.execute(insert(schema.confirmation), [row])
    transitions.begin(tx, change, f"{pairs} pairs in run {run}", now)


def judge(tx: Connection, confirmation: Running, results: PairResults) -> Remeasured:
    """What pairs that have all ended say, or how many more of them are needed."""
    change = _change(tx, confirmation)
    before = before_change(tx, change)
    kind, is_same = _read_arms(tx, confirmation.run)
    judgement = judge_change(
        change,
        results,
        before,
        kind=kind,
        is_same=is_same,
        lack="" if kind is ArmKind.DRIVER else find_drivers(tx, change).reason,
    )
    if _is_cancelled(tx, confirmation.run):
        return replace(judgement, more=0)
    return replace(judgement, more=max(0, min(judgement.more, MOST_PAIRS - confirmation.pairs)))


def extend(tx: Connection, confirmation: Running, pairs: int) -> None:
    """Store that a confirmation asks for more pairs."""
    table = schema.confirmation.c
    most = confirmation.pairs + pairs
    tx.execute(update(schema.confirmation).where(table.id == confirmation.id).values(pairs=most))


def finish(tx: Connection, confirmation: Running, judgement: Remeasured, now: float) -> None:
    """End a confirmation and decide its change; wrong outputs are a change of their own."""
    table = schema.confirmation.c
    tx.execute(
        update(schema.confirmation)
        .where(table.id == confirmation.id)
        .values(finished_at=now, verdict=judgement.verdict, **judgement.figures)
    )
    note = judgement.conclusion.note
    if judgement.verdict == FAILED and _read_arms(tx, confirmation.run)[0] is ArmKind.DRIVER:
        # a driver that does not load any more says nothing: what is measured now does
        transitions.reopen(tx, [Reopening(change=confirmation.change, note=note)], now)
        return
    decision = Decision(change=confirmation.change, conclusion=judgement.conclusion)
    transitions.apply(tx, [decision], now)
    if judgement.is_new_wrong:
        record_wrong_pairs(tx, _change(tx, confirmation), confirmation.run, now)


def interrupt(tx: Connection, change: int, now: float) -> None:
    """End the confirmation of a change that proves to lie elsewhere, if one runs."""
    for confirmation in running(tx):
        if confirmation.change == change:
            cancel(tx, confirmation.run, now)
            values = {"finished_at": now, "verdict": "moved"}
            table = schema.confirmation.c
            tx.execute(
                update(schema.confirmation).where(table.id == confirmation.id).values(**values)
            )


def abandon(tx: Connection, confirmation: Running, now: float) -> None:
    """End a confirmation whose device went away."""
    text = "its pairs were not measured within a day"
    conclusion = Conclusion(state=ChangeState.AMBIGUOUS, note=text)
    finish(tx, confirmation, Remeasured(conclusion=conclusion, verdict="abandoned"), now)


def _change(tx: Connection, confirmation: Running) -> ChangePoint:
    table = schema.change_point.c
    query = select(schema.change_point).where(table.id == confirmation.change)
    [change] = fetch(tx, query, ChangePoint)
    return change


def _read_arms(tx: Connection, run: int) -> tuple[ArmKind, bool]:
    """What the pairs of a run are of, and whether both arms are the same."""
    job = schema.job.c
    pair = select(job.arm_kind, job.bundle, job.against).where(job.run_id == run).limit(1)
    row = tx.execute(pair).one()
    return ArmKind(row.arm_kind), bool(row.bundle == row.against)


def _is_cancelled(tx: Connection, run: int) -> bool:
    query = select(schema.run.c.cancelled_at).where(schema.run.c.id == run)
    return tx.execute(query).scalar() is not None
