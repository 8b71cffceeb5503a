"""Whole series are cut where their level shifted: what the screen missed, or was too early to know.

`shifts` says what each shift is: a suspicion, a decision, or a reason to measure again. On a device
that a worker serves, the newest shift is measured, unless it is of shards or of compiling, which
pairs do not measure. Elsewhere this pass decides from the results alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection, func, select, update

from vkbench.job import PEERS
from vkbench.peers import BY_NAME
from vkbench_db import schema
from vkbench_db.database import watch_alone
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import VERDICTS
from vkbench_detection.changes.states import DECIDED, ChangeState
from vkbench_detection.changes.transitions import apply, reopen, suspect
from vkbench_detection.confirm.confirmations import interrupt
from vkbench_detection.confirm.fleet import WATCHED_SECONDS, watched_devices
from vkbench_detection.confirm.pairable import can_pair, is_pairable
from vkbench_detection.find.shifts import History, judge_shifts
from vkbench_detection.series.points import VERDICT, origins, points
from vkbench_detection.statistics.segments import LAST


def due_series(tx: Connection, now: float, limit: int) -> list[int]:
    """Series whose history is to be looked at now."""
    series = schema.series.c
    rows = tx.execute(
        select(series.id).where(series.scan_due_at <= now).order_by(series.scan_due_at).limit(limit)
    )
    return list(rows.scalars())


def changed_series(tx: Connection) -> list[int]:
    """Series with results that came in since their history was last looked at."""
    series = schema.series.c
    return list(tx.execute(select(series.id).where(series.scan_due_at.is_not(None))).scalars())


def every_series(tx: Connection) -> list[int]:
    """All series of our kernels' times: those of peers are never suspected."""
    series = schema.series.c
    own = (
        series.metric != VERDICT,
        series.variant.not_in(tuple(BY_NAME)),
        series.track != PEERS,
    )
    return list(tx.execute(select(series.id).where(*own)).scalars())


def scan(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Look for changes in whole series; return the change points that are new or decided now."""
    watch_alone(tx)
    numbers = sorted(set(series))
    served = watched_devices(tx, now)
    touched: list[int] = []
    for history in _histories(tx, numbers):
        is_measured = history.device in served and history.is_pairable
        shifts = judge_shifts(history, is_served=is_measured)
        apply(tx, shifts.decisions, now)  # first: a decision may move its change point to a place
        for reopening in shifts.reopenings:
            interrupt(tx, reopening.change, now)
        reopen(tx, shifts.reopenings, now)
        touched += [reopening.change for reopening in shifts.reopenings]
        touched += [decision.change for decision in shifts.decisions]
        touched += suspect(tx, shifts.suspicions, now)
    _put_off(tx, numbers, served, now)
    return touched


def _put_off(tx: Connection, series: Sequence[int], served: Collection[int], now: float) -> None:
    """Set when the histories of these series are due again.

    New results make a series due. One whose suspected change waits for pairs on a served device is
    due after WATCHED_SECONDS as well, in case its device goes away.
    """
    table, change = schema.series.c, schema.change_point.c
    tx.execute(update(schema.series).where(table.id.in_(series)).values(scan_due_at=None))
    suspected = select(change.series_id).where(
        change.series_id.in_(series), change.state == ChangeState.SUSPECTED
    )
    waiting = table.id.in_(suspected) & table.device_id.in_(served) & is_pairable()
    tx.execute(update(schema.series).where(waiting).values(scan_due_at=now + WATCHED_SECONDS))


def _histories(tx: Connection, series: Sequence[int]) -> Iterable[History]:
    table, change = schema.series.c, schema.change_point.c
    columns = (table.id, table.device_id, table.track, table.metric)
    query = select(*columns).where(table.id.in_(series))
    for row in tx.execute(query).all():
        query = select(schema.change_point).where(
            change.series_id == row.id, change.direction.not_in(VERDICTS)
        )
        every_change = fetch(tx, query.order_by(change.id), ChangePoint)
        known = [
            change for change in every_change if change.method != Method.DECAY
        ]  # between neighbours
        last = points(tx, row.id, LAST)
        yield History(
            series=row.id,
            device=row.device_id,
            is_pairable=can_pair(row.track, row.metric),
            points=last,
            known=known,
            taken={change.after_job for change in every_change},
            measured=_find_measured(tx, [change.id for change in known]),
            decided=_find_decision_times(tx, [change.id for change in known]),
            origins=origins(tx, [point.job for point in last]),
        )


def _find_measured(tx: Connection, changes: Sequence[int]) -> set[int]:
    if not changes:
        return set()
    done = schema.confirmation.c
    query = select(done.change_point_id).where(done.change_point_id.in_(changes))
    return set(tx.execute(query).scalars())


def _find_decision_times(tx: Connection, changes: Sequence[int]) -> dict[int, float]:
    """When each of these changes was decided last."""
    if not changes:
        return {}
    event = schema.change_point_event.c
    query = (
        select(event.change_point_id, func.max(event.at).label("at"))
        .where(event.change_point_id.in_(changes), event.state.in_(DECIDED))
        .group_by(event.change_point_id)
    )
    return {row.change_point_id: row.at for row in tx.execute(query)}
