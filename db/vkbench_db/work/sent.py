"""Jobs that were sent: marked as running, or found lost and queued again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, bindparam, select, update

import vkbench
from vkbench.job import IN_FLIGHT, MAX_DISPATCHES, JobState, Outcome
from vkbench_db import schema
from vkbench_db.rows import lock_jobs
from vkbench_db.work.latest import note


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """A job that was sent and has not come back."""

    job: int
    token: int
    run: int
    device: str
    dispatched_at: float


@dataclass(frozen=True, kw_only=True)
class Returned:
    """How many lost jobs were queued again, and how many failed."""

    queued: int
    failed: int  # sent more often than is bearable


def mark_running(tx: Connection, sent: Iterable[tuple[int, int]]) -> int:
    """Mark these (job, token) as running; return how many states changed."""
    tokens = dict(sent)
    ids = [
        row.id
        for row in lock_jobs(tx, tokens)
        if row.state == JobState.DISPATCHED and row.token == tokens[row.id]
    ]
    tx.execute(update(schema.job).where(schema.job.c.id.in_(ids)).values(state=JobState.RUNNING))
    return len(ids)


def dispatched_before(tx: Connection, moment: float) -> list[InFlight]:
    """Jobs that were sent before a moment and have not come back."""
    job = schema.job.c
    keys = {row.id: row.key for row in tx.execute(select(schema.device.c.id, schema.device.c.key))}
    rows = tx.execute(
        select(job.id, job.token, job.run_id, job.device_id, job.dispatched_at)
        # by device, for the index of the pick: there is none over states alone
        .where(job.device_id.in_(keys), job.state.in_(IN_FLIGHT), job.dispatched_at < moment)
        .order_by(job.id)
    ).all()
    return [
        InFlight(
            job=row.id,
            token=row.token,
            run=row.run_id,
            device=keys[row.device_id],
            dispatched_at=row.dispatched_at,
        )
        for row in rows
    ]


def in_flight(tx: Connection, device: str) -> list[tuple[int, int]]:
    """(job, token) of each job that was sent to a device and has not come back."""
    job = schema.job.c
    rows = tx.execute(
        select(job.id, job.token)
        .join(schema.device, schema.device.c.id == job.device_id)
        .where(schema.device.c.key == device, job.state.in_(IN_FLIGHT))
        .order_by(job.id)
    )
    return [(row.id, row.token) for row in rows]


def return_lost(tx: Connection, lost: Iterable[tuple[int, int]], now: float) -> Returned:
    """Queue lost jobs (job, token) again, without counting a try.

    A job that was sent MAX_DISPATCHES times is failed instead: something about it loses it.
    """
    tokens = dict(lost)
    rows = [
        row
        for row in lock_jobs(tx, tokens)
        if row.state in IN_FLIGHT and row.token == tokens[row.id]
    ]
    again = [row.id for row in rows if row.dispatches < MAX_DISPATCHES]
    over = [row.id for row in rows if row.dispatches >= MAX_DISPATCHES]
    job = schema.job.c
    tx.execute(update(schema.job).where(job.id.in_(again)).values(state=JobState.QUEUED))
    if over:
        _fail_lost(tx, over, now)
    note(tx, over)
    return Returned(queued=len(again), failed=len(over))


def _fail_lost(tx: Connection, jobs: Sequence[int], now: float) -> None:
    """End jobs that no worker answers, with what is known of those that should have."""
    table, device, environment = schema.job, schema.device.c, schema.environment.c
    rows = tx.execute(
        select(table.c.id, table.c.dispatched_at, schema.host.c.name.label("host"))
        .add_columns(device.name, device.worker, device.last_seen, environment.facts)
        .join(schema.device, device.id == table.c.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .outerjoin(schema.environment, environment.hash == device.environment)
        .where(table.c.id.in_(jobs))
    )
    tx.execute(
        update(table)
        .where(table.c.id == bindparam("job"))
        .values(
            state=JobState.FAILED, cause=Outcome.LOST, reason=bindparam("why"), finished_at=now
        ),
        [{"job": row.id, "why": _why_lost(row._mapping)} for row in rows],
    )


def _why_lost(row: RowMapping) -> str:
    sent = f"sent {MAX_DISPATCHES} times, last at {_moment(row['dispatched_at'])}"
    place = f"{row['name']} on {row['host']}"
    own_version = f"this scheduler is vkbench {vkbench.__version__}"
    if not row["worker"]:
        return f"{sent}, and never heard of again: no worker serves {place}; {own_version}"
    version = (row["facts"] or {}).get("vkbench", "of unknown version")
    seen = f"its worker {row['worker']} (vkbench {version}) last announced itself at"
    last_seen = _moment(row["last_seen"])
    return f"{sent}, to {place}, and never heard of again: {seen} {last_seen}; {own_version}"


def _moment(seconds: float | None) -> str:
    return f"{datetime.fromtimestamp(seconds or 0.0, UTC):%Y-%m-%d %H:%M:%S} UTC"
