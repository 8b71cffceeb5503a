"""Moves jobs between states until a result comes: queued, dispatched, running, lost.

    queued ──pick──► dispatched ──mark_running──► running ──record──► passed | wrong | skipped
      ▲                   │                          │
      └───────────────────┴──────────────────────────┴── return_lost, record of a job that a worker
                                                     handed back, or of a result that does not
                                                     settle; too often: ──► failed
    cancel: any of these three ──► cancelled

A large run's jobs are `arriving` until all of them are stored; arrivals.py moves them to `queued`.

An import stores what has not ended as `elsewhere`. No way leads from there but another import: such
a job is never sent, counted as waiting, resumed, cancelled or looked for.

Every dispatch gives the job a new token; an answer to an older one may settle the job or cost it a
try, and cannot take it from the newer dispatch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, groupby, islice
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, RowMapping, Select, bindparam, func, select, update

from vkbench.job import (
    Arm,
    ArmKind,
    Job,
    JobState,
    Mode,
    Pair,
    PlannedJob,
    Source,
)
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import record_of
from vkbench_db.work.estimates import Recent

FIRST_PAGE = 8  # queued jobs of a run that are read, and locked, at first
PAGE_GROWTH = 4


class QueuedJob(NamedTuple):
    """A queued job that may be picked."""

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
class Wanted:
    """How much work a device is to get."""

    device: str  # key
    jobs: int
    seconds: float = math.inf  # of estimated work
    learned: Recent = field(default_factory=Recent)  # in place of first estimates
    without: Collection[str] = ()  # bundles whose jobs wait


def pick(
    tx: Connection,
    device: str,
    limit: int,
    now: float,
    *,
    seconds: float = math.inf,
    run: int | None = None,
) -> list[Picked]:
    """Mark a device's next jobs as dispatched, until `limit` jobs or `seconds` of estimated work.

    Higher priority first; runs of one priority take turns, beginning after the run served last.
    Nothing for a device that is unknown or paused. With `run` only that run's jobs.
    """
    share = Wanted(device=device, jobs=limit, seconds=seconds)
    return pick_all(tx, [share], now, run=run).get(device, [])


def pick_all(
    tx: Connection, shares: Iterable[Wanted], now: float, *, run: int | None = None
) -> dict[str, list[Picked]]:
    """Pick jobs for several devices, as `pick` does: by the key of each that gets any job."""
    by_device = {share.device: share for share in shares if share.jobs > 0}
    device = schema.device.c
    rows = tx.execute(
        select(device.id, device.key, device.last_run)
        .where(device.key.in_(by_device), ~device.paused)
        .order_by(device.id)
        .with_for_update(key_share=True)
    ).all()
    chosen = {row.id: _choose(tx, row.id, row.last_run, by_device[row.key], run) for row in rows}
    served = {number: jobs for number, jobs in chosen.items() if jobs}
    if not served:
        return {}
    _mark_dispatched(tx, [job for jobs in served.values() for job in jobs], now)
    tx.execute(
        update(schema.device)
        .where(device.id == bindparam("served"))
        .values(last_run=bindparam("run")),
        [{"served": number, "run": jobs[-1].run_id} for number, jobs in served.items()],
    )
    picked = _read_picked(tx, [job.id for jobs in served.values() for job in jobs])
    keys = {row.id: row.key for row in rows}
    return {keys[number]: [picked[job.id] for job in jobs] for number, jobs in served.items()}


def _choose(
    tx: Connection, device: int, last_run: int, share: Wanted, run: int | None
) -> list[QueuedJob]:
    waiting = _in_turn(tx, device, last_run, share.jobs, run, tuple(share.without))
    estimated = _better_estimated(waiting, share.learned)
    return list(_until(estimated, share.jobs, share.seconds))


J = TypeVar("J", Job, PlannedJob)


def job_of(row: RowMapping, record: type[J]) -> J:
    """A row of the table of jobs as a record; `row` names the case, and for a plan the device.

    A column of the table that the record has a field for arrives there by its name.
    """
    made = {
        "mode": Mode(row["mode"]),
        "arm_kind": ArmKind(row["arm_kind"]),
        "source": Source(**row["source"]) if row["source"] else None,
        "pair": _pair_of(row) if row["mode"] == Mode.PAIRED else None,
        "run": row["run_id"],
        "alone": row["tries"] > 0 or row["mode"] in (Mode.PAIRED, Mode.PEER),
    }
    return record_of({**row, **made}, record)


def _pair_of(row: RowMapping) -> Pair:
    old = Arm(name=row["against"], kind=ArmKind(row["arm_kind"]))
    return Pair(old=old, metric=row["metric"], new_first=row["new_first"])


def _in_turn(
    tx: Connection,
    device: int,
    last_run: int,
    limit: int,
    only: int | None,
    without: Sequence[str],
) -> Iterator[QueuedJob]:
    """Queued jobs in the order in which to send them."""
    with_jobs = tx.execute(_waiting_runs(), {"device": device}).all()
    waiting = sorted(
        (run for run in with_jobs if only in (None, run.id)),
        key=lambda run: (-run.priority, run.id <= last_run, run.id),
    )
    for _, group in groupby(waiting, key=lambda run: run.priority):
        runs = [run.id for run in group]
        most = max(FIRST_PAGE, limit // len(runs))
        yield from _round_robin([_queue(tx, device, run, most, without) for run in runs])


@cache
def _waiting_runs() -> Select[int, int]:
    """Runs with queued jobs on a device: hops along the index, whatever the number of jobs."""
    job = schema.job.c
    queued = (job.device_id == bindparam("device"), job.state == JobState.QUEUED)
    hop = select(func.min(job.run_id).label("id")).where(*queued).cte("hop", recursive=True)
    after = select(func.min(job.run_id)).where(*queued, job.run_id > hop.c.id).scalar_subquery()
    hop = hop.union_all(select(after).where(hop.c.id.is_not(None)))
    run = schema.run.c
    of_runs = select(run.id, run.priority).join(hop, hop.c.id == run.id)
    return of_runs.where(run.cancelled_at.is_(None))  # whose jobs are cancelled in parts


def _queue(
    tx: Connection, device: int, run: int, most: int, without: Sequence[str]
) -> Iterator[QueuedJob]:
    """A run's queued jobs, a page at a time: a few, since one may fill a chunk, then more."""
    job = schema.job.c
    query = _queue_page()
    if without:
        named = (job.bundle, job.against, job.driver)
        query = query.where(*(sha.not_in(without) for sha in named))
    after, page = 0, FIRST_PAGE
    while True:
        place = {"device": device, "run": run, "after": after, "page": page}
        rows = tx.execute(query, place).all()
        yield from map(QueuedJob._make, rows)
        if len(rows) < page:
            return
        after, page = rows[-1].id, min(PAGE_GROWTH * page, most)


@cache
def _queue_page() -> Select[int, int, float, str, str]:
    """Queued jobs of a run on a device after one of them; built once, for it is asked most."""
    job, case = schema.job.c, schema.kernel_case.c
    return (
        select(job.id, job.run_id, job.estimate_seconds, case.name, job.mode)
        .join(schema.kernel_case, case.id == job.case_id)
        .where(
            job.device_id == bindparam("device"),
            job.state == JobState.QUEUED,
            job.run_id == bindparam("run"),
            job.id > bindparam("after"),
        )
        .order_by(job.id)
        .limit(bindparam("page"))
        .with_for_update(of=schema.job, skip_locked=True, key_share=True)
    )


def _round_robin(queues: Sequence[Iterator[QueuedJob]]) -> Iterator[QueuedJob]:
    left = len(queues)
    turns = cycle(queues)
    while left:
        try:
            for queue in turns:
                yield next(queue)
        except StopIteration:
            left -= 1
            turns = cycle(islice(turns, left))


def _better_estimated(jobs: Iterator[QueuedJob], learned: Recent) -> Iterator[QueuedJob]:
    for job in jobs:
        seconds = learned.of(job.case, job.mode, planned=job.estimate_seconds)
        yield job._replace(estimate_seconds=seconds)


def _until(jobs: Iterator[QueuedJob], limit: int, seconds: float) -> Iterator[QueuedJob]:
    total = 0.0
    for job in islice(jobs, limit):
        yield job
        total += job.estimate_seconds
        if round(total, 9) >= seconds:  # ten times 0.15 add up to less than 1.5
            return


def _mark_dispatched(tx: Connection, chosen: Sequence[QueuedJob], now: float) -> None:
    job = schema.job
    tx.execute(
        update(job)
        .where(job.c.id == bindparam("job"))
        .values(
            state=JobState.DISPATCHED,
            token=job.c.token + 1,
            dispatches=job.c.dispatches + 1,
            dispatched_at=now,
            estimate_seconds=bindparam("seconds"),
        ),
        [{"job": waiting.id, "seconds": waiting.estimate_seconds} for waiting in chosen],
    )


def _read_picked(tx: Connection, ids: Iterable[int]) -> dict[int, Picked]:
    job, case = schema.job.c, schema.kernel_case.c
    query = select(schema.job, case.name.label("case")).join(
        schema.kernel_case, case.id == job.case_id
    )
    return {
        row["id"]: Picked(
            job=job_of(row, Job), run=row["run_id"], estimate_seconds=row["estimate_seconds"]
        )
        for batch in batches(ids)
        for row in tx.execute(query.where(job.id.in_(batch))).mappings()
    }
