"""Stores results that came without the queue, as of local runs, together with their ended jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select, update

from vkbench.job import JobState, PlannedJob
from vkbench.result import Result
from vkbench_db import schema
from vkbench_db.work.results import record
from vkbench_db.work.runs import add_jobs

_TOKEN = 1


def add_ended(
    tx: Connection, run: int, ended: Sequence[tuple[PlannedJob, Result]], now: float
) -> None:
    """Store jobs of a run that has none yet, with the result of each."""
    add_jobs(tx, run, [planned for planned, _ in ended])
    job = schema.job
    of_run = job.c.run_id == run
    sent = {"state": JobState.DISPATCHED, "token": _TOKEN, "dispatches": 1, "dispatched_at": now}
    tx.execute(update(job).where(of_run).values(sent))
    ids = tx.execute(select(job.c.id).where(of_run).order_by(job.c.position)).scalars()
    results = [
        replace(result, job=id, token=_TOKEN) for id, (_, result) in zip(ids, ended, strict=True)
    ]
    record(tx, results, now)
