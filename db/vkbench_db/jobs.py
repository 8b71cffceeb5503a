"""The ways of a job until its result comes: picked, running, lost and found.

    queued ──pick──► dispatched ──mark_running──► running ──record──► passed | wrong | skipped
      ▲                   │                          │
      └───────────────────┴──────────────────────────┴── return_lost, or record of a result that
                                                     does not settle; too often: ──► failed
    cancel: any of these three ──► cancelled

An import stores what has not ended as `elsewhere`. No way leads from there but another import: such
a job is never sent, counted as waiting, resumed, cancelled or looked for.

Every dispatch gives the job a new token; an answer to an older one may settle the job or cost it a
try, and cannot take it from the newer dispatch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, groupby, islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, func, select, update

from vkbench.job import MAX_DISPATCHES, Job, Mode, Outcome, Source, State
from vkbench_db import models
from vkbench_db.rows import lock_jobs

IN_FLIGHT = (State.DISPATCHED, State.RUNNING)


class Waiting(NamedTuple):
    """A queued job's part in the pick."""

    id: int
    run_id: int
    estimate_seconds: float
    case: str
    mode: str


@dataclass(frozen=True, kw_only=True)
class Picked:
    """A job that has just been marked as dispatched."""

    job: Job
    run: int
    estimate_seconds: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is in flight to a device."""

    jobs: int
    seconds: float  # of estimated work


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
    """What became of lost jobs."""

    queued: int
    failed: int  # sent more often than is bearable


def pick(
    tx: Connection,
    device: str,
    limit: int,
    now: float,
    *,
    seconds: float = math.inf,
    run: int | None = None,
    learned: Mapping[tuple[str, str], float] | None = None,
) -> list[Picked]:
    """Mark a device's next jobs as dispatched, until `limit` jobs or `seconds` of estimated work.

    What was `learned` of a (case, mode) takes the place of its job's first estimate.
    Higher priority first; runs of one priority take turns, beginning after the run served last.
    Nothing for a device that is unknown or paused. With `run` only that run's jobs.
    """
    row = tx.execute(
        select(models.Device.id, models.Device.paused, models.Device.last_run)
        .where(models.Device.key == device)
        .with_for_update(key_share=True)
    ).first()
    if row is None or row.paused or limit < 1:
        return []
    waiting = _in_turn(tx, row.id, row.last_run, limit, run)
    chosen = list(_until(_better_estimated(waiting, learned or {}), limit, seconds))
    if not chosen:
        return []
    ids = [job.id for job in chosen]
    _mark_dispatched(tx, chosen, now)
    tx.execute(
        update(models.Device).where(models.Device.id == row.id).values(last_run=chosen[-1].run_id)
    )
    return _picked(tx, ids)


def mark_running(tx: Connection, sent: Iterable[tuple[int, int]]) -> int:
    """Note which (job, token) are on their devices now; says how many that changed."""
    tokens = dict(sent)
    ids = [
        row.id
        for row in lock_jobs(tx, tokens)
        if row.state == State.DISPATCHED and row.token == tokens[row.id]
    ]
    tx.execute(update(models.Job).where(models.Job.id.in_(ids)).values(state=State.RUNNING))
    return len(ids)


def load(tx: Connection, device: str) -> Load:
    """How much is in flight to a device."""
    job = models.Job
    row = tx.execute(
        select(func.count(), func.coalesce(func.sum(job.estimate_seconds), 0.0))
        .join(models.Device, models.Device.id == job.device_id)
        .where(models.Device.key == device, job.state.in_(IN_FLIGHT))
    ).one()
    return Load(jobs=row[0], seconds=row[1])


def dispatched_before(tx: Connection, moment: float) -> list[InFlight]:
    """Jobs that were sent before a moment and have not come back."""
    job = models.Job
    keys = {row.id: row.key for row in tx.execute(select(models.Device.id, models.Device.key))}
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


def return_lost(tx: Connection, lost: Iterable[tuple[int, int]], now: float) -> Returned:
    """Queue again what is in flight under these (job, token); no try is charged.

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
    job = models.Job
    tx.execute(update(job).where(job.id.in_(again)).values(state=State.QUEUED))
    tx.execute(
        update(job)
        .where(job.id.in_(over))
        .values(
            state=State.FAILED,
            cause=Outcome.LOST,
            reason=f"sent {MAX_DISPATCHES} times and never heard of again",
            finished_at=now,
        )
    )
    return Returned(queued=len(again), failed=len(over))


def _in_turn(
    tx: Connection, device: int, last_run: int, limit: int, only: int | None
) -> Iterator[Waiting]:
    """Queued jobs in the order in which they should go."""
    found = tx.execute(_waiting_runs(device)).all()
    waiting = sorted(
        (run for run in found if only in (None, run.id)),
        key=lambda run: (-run.priority, run.id <= last_run, run.id),
    )
    for _, group in groupby(waiting, key=lambda run: run.priority):
        runs = [run.id for run in group]
        page = max(8, limit // len(runs))
        yield from _round_robin([_queue(tx, device, run, page) for run in runs])


def _waiting_runs(device: int) -> Select[int, int]:
    """Runs with queued jobs on a device: hops along the index, whatever the number of jobs."""
    job = models.Job
    queued = (job.device_id == device, job.state == State.QUEUED)
    hop = select(func.min(job.run_id).label("id")).where(*queued).cte("hop", recursive=True)
    after = select(func.min(job.run_id)).where(*queued, job.run_id > hop.c.id).scalar_subquery()
    hop = hop.union_all(select(after).where(hop.c.id.is_not(None)))
    return select(models.Run.id, models.Run.priority).join(hop, hop.c.id == models.Run.id)


def _queue(tx: Connection, device: int, run: int, page: int) -> Iterator[Waiting]:
    job, case = models.Job, models.KernelCase
    after = 0
    while True:
        rows = tx.execute(
            select(job.id, job.run_id, job.estimate_seconds, case.name, job.mode)
            .join(case, case.id == job.case_id)
            .where(
                job.device_id == device,
                job.state == State.QUEUED,
                job.run_id == run,
                job.id > after,
            )
            .order_by(job.id)
            .limit(page)
            .with_for_update(of=job, skip_locked=True, key_share=True)
        ).all()
        yield from map(Waiting._make, rows)
        if len(rows) < page:
            return
        after = rows[-1].id


def _round_robin(queues: Sequence[Iterator[Waiting]]) -> Iterator[Waiting]:
    left = len(queues)
    turns = cycle(queues)
    while left:
        try:
            for queue in turns:
                yield next(queue)
        except StopIteration:
            left -= 1
            turns = cycle(islice(turns, left))


def _better_estimated(
    jobs: Iterator[Waiting], learned: Mapping[tuple[str, str], float]
) -> Iterator[Waiting]:
    for job in jobs:
        seconds = learned.get((job.case, job.mode), job.estimate_seconds)
        yield job._replace(estimate_seconds=seconds)


def _until(jobs: Iterator[Waiting], limit: int, seconds: float) -> Iterator[Waiting]:
    total = 0.0
    for job in islice(jobs, limit):
        yield job
        total += job.estimate_seconds
        if total >= seconds:
            return


def _mark_dispatched(tx: Connection, chosen: Sequence[Waiting], now: float) -> None:
    job = models.Job.__table__
    tx.execute(
        update(job)  # type: ignore[arg-type]
        .where(job.c.id == bindparam("job"))
        .values(
            state=State.DISPATCHED,
            token=job.c.token + 1,
            dispatches=job.c.dispatches + 1,
            dispatched_at=now,
            estimate_seconds=bindparam("seconds"),
        ),
        [{"job": waiting.id, "seconds": waiting.estimate_seconds} for waiting in chosen],
    )


def _picked(tx: Connection, ids: Sequence[int]) -> list[Picked]:
    job, case = models.Job, models.KernelCase
    rows = tx.execute(
        select(job.__table__, case.name.label("case_name"))
        .join(case, case.id == job.case_id)
        .where(job.id.in_(ids))
    ).all()
    by_id = {row.id: _as_picked(row) for row in rows}
    return [by_id[job_id] for job_id in ids]


def _as_picked(row: Row[Any]) -> Picked:
    return Picked(
        job=Job(
            id=row.id,
            token=row.token,
            case=row.case_name,
            mode=Mode(row.mode),
            variant=row.variant,
            bundle=row.bundle,
            against=row.against,
            metric=row.metric,
            new_first=row.new_first,
            limit_seconds=row.limit_seconds,
            measure_seconds=row.measure_seconds,
            noise=row.noise,
            alone=row.tries > 0 or row.mode == Mode.PAIRED,
            run=row.run_id,
            source=Source(**row.source) if row.source else None,
        ),
        run=row.run_id,
        estimate_seconds=row.estimate_seconds,
    )
