"""Runs of many jobs: stored in short transactions, so that other writers wait for one part only.

    create_run ──► arriving, a part at a time ──► queued, a part at a time, once all are stored

A run is whole once a job of it is past `arriving`. If its submission ends before that, none of its
jobs is ever sent: `settle` cancels them. If it ends later, `settle` queues what is left.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from sqlalchemy import Connection, Select, exists, func, or_, select, update

from vkbench.errors import ServiceUnreachable, VkbenchError
from vkbench.job import OPEN, JobState, PlannedJob
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.database import Database
from vkbench_db.work.runs import add_jobs, cancel_jobs, note_cancelled, within

PART_JOBS = 2000  # 0.1 s of writing
ABANDONED_SECONDS = 3600.0  # after which a submission that has not ended does not live
STILL_SECONDS = 10.0  # without a new job, after which a submission with the same key takes over
LOOK_SECONDS = 0.2


class Withdrawn(VkbenchError):
    """The run was cancelled while its jobs were stored."""


def store_jobs(database: Database, run: int, jobs: Iterable[PlannedJob]) -> int:
    """Store a new run's jobs, and queue them once all are stored; returns how many."""
    count = 0
    try:
        for part in batches(jobs, PART_JOBS):
            with database.transaction() as tx:
                if _is_cancelled(tx, run):
                    raise Withdrawn(f"run {run} was cancelled while its jobs were stored")
                count += add_jobs(tx, run, part, JobState.ARRIVING)
            database.let_others_in()
    except BaseException:
        with suppress(ServiceUnreachable):  # `settle` does it later
            _withdraw(database, run, time.time())
        raise
    _queue(database, run)
    return count


def cancel_run(database: Database, run: int, now: float) -> int:
    """Cancel the jobs of a run that have not ended: none is sent from the first moment on."""
    with database.transaction() as tx:
        note_cancelled(tx, run, now)
    return sum(_cancelled_parts(database, run))


def explain_cancelled(database: Database, jobs: Collection[int], reason: str) -> None:
    """Say of jobs that are cancelled why they have no result."""
    job = schema.job.c
    with database.transaction() as tx:
        is_meant = (job.id.in_(list(jobs)), job.state == JobState.CANCELLED)
        tx.execute(update(schema.job).where(*is_meant).values(reason=reason))


def settle(database: Database, run: int, now: float) -> None:
    """End what a process that died had begun: the storing or the cancelling of a run's jobs."""
    with database.reading() as tx:
        if not unsettled_runs(tx, run):
            return
        query = select(schema.run.c.created_at, schema.run.c.cancelled_at)
        stored = tx.execute(query.where(schema.run.c.id == run)).one()
        whole = is_whole(tx, run)
    if stored.cancelled_at is not None:
        sum(_cancelled_parts(database, run))
    elif whole:
        _queue(database, run)
    elif stored.created_at < now - ABANDONED_SECONDS:
        _withdraw(database, run, now)


def unsettled_runs(tx: Connection, only: int | None = None) -> list[int]:
    """Runs with jobs that are arriving, or that are cancelled and have jobs that are not."""
    job, run = schema.job.c, schema.run.c
    arriving = exists().where(job.run_id == run.id, job.state == JobState.ARRIVING)
    is_open = exists().where(job.run_id == run.id, job.state.in_(OPEN))
    query = select(run.id).where(or_(arriving, run.cancelled_at.is_not(None) & is_open))
    if only is not None:
        query = query.where(run.id == only)
    return list(tx.execute(query.order_by(run.id)).scalars())


def is_whole(tx: Connection, run: int) -> bool:
    """Whether all jobs of a run are stored; a run without jobs has all of them."""
    job = schema.job.c
    states = select(job.state).where(job.run_id == run)
    past = tx.execute(states.where(job.state != JobState.ARRIVING).limit(1)).first()
    return bool(past) or tx.execute(states.limit(1)).first() is None


def is_settled(tx: Connection, run: int) -> bool:
    """Whether a submission has nothing to add to a run: it is whole, or cancelled."""
    cancelled = schema.run.c.cancelled_at
    cancelled_at = tx.execute(select(cancelled).where(schema.run.c.id == run)).scalar_one()
    return cancelled_at is not None or is_whole(tx, run)


def give_way(database: Database, run: int) -> None:
    """Wait for the submission that stores this run; if it died, withdraw the run."""
    last: int | None = None
    since = time.monotonic()
    while True:
        with database.reading() as tx:
            if is_settled(tx, run):
                return
            count = tx.execute(_last_position(run)).scalar()
        if count != last:
            last, since = count, time.monotonic()
        elif time.monotonic() - since >= STILL_SECONDS:
            _withdraw(database, run, time.time())
            return
        time.sleep(LOOK_SECONDS)


def _withdraw(database: Database, run: int, now: float) -> None:
    """Cancel a run that is not whole, and let its idempotency key be used again."""
    with database.transaction() as tx:
        if _is_cancelled(tx, run) or is_whole(tx, run):
            return
        note_cancelled(tx, run, now)
        tx.execute(update(schema.run).where(schema.run.c.id == run).values(idempotency_key=None))
    sum(_cancelled_parts(database, run))


def _queue(database: Database, run: int) -> None:
    """Queue the arriving jobs of a run that is whole, unless it is cancelled."""
    job = schema.job.c
    for span in _spans(database, run):
        with database.transaction() as tx:
            if _is_cancelled(tx, run):
                return
            tx.execute(
                update(schema.job)
                .where(job.run_id == run, within(span), job.state == JobState.ARRIVING)
                .values(state=JobState.QUEUED)
            )
        database.let_others_in()


def _cancelled_parts(database: Database, run: int) -> Iterator[int]:
    for span in _spans(database, run):
        with database.transaction() as tx:
            yield cancel_jobs(tx, run, span)
        database.let_others_in()


def _spans(database: Database, run: int) -> Iterator[range]:
    """The positions of a run's jobs, in parts."""
    with database.reading() as tx:
        last = tx.execute(_last_position(run)).scalar()
    end = 0 if last is None else last + 1
    for begin in range(0, end, PART_JOBS):
        yield range(begin, min(begin + PART_JOBS, end))


def _last_position(run: int) -> Select[int | None]:
    job = schema.job.c
    return select(func.max(job.position)).where(job.run_id == run)


def _is_cancelled(tx: Connection, run: int) -> bool:
    """Whether a run is cancelled; who cancels it waits until `tx` ends."""
    run_columns = schema.run.c
    query = (
        select(run_columns.cancelled_at)
        .where(run_columns.id == run)
        .with_for_update(key_share=True)
    )
    return tx.execute(query).scalar_one() is not None
