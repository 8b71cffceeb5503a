"""Stores what came without the queue: ended jobs of local runs, and rows of accuracy runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from sqlalchemy import Connection, select, update

from vkbench.accuracy import Accuracy
from vkbench.job import JobState, PlannedJob
from vkbench.result import Result
from vkbench_db import schema
from vkbench_db.rows import insert_missing
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


def add_accuracies(tx: Connection, run: int, accuracies: Mapping[int, Accuracy]) -> None:
    """Store rows of a run by their position; those that are there already stay as they are."""
    rows = [{"run_id": run, "position": at, **asdict(row)} for at, row in accuracies.items()]
    insert_missing(tx, schema.accuracy, rows)
