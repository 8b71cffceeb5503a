"""Timings of our kernels: which rows they are, and those of given jobs."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, select

from vkbench.result import Side
from vkbench_db import schema
from vkbench_db.batches import batches


def is_our_time(job: ColumnElement[int], metric: str) -> ColumnElement[bool]:
    """Whether a measurement is our kernel's, of a metric of a job."""
    timing = schema.measurement.c
    return and_(timing.job_id == job, timing.metric == metric, timing.side == Side.OURS)


def seconds_of(tx: Connection, jobs: Collection[int]) -> dict[tuple[int, str], float]:
    """What our kernel took in these jobs, by job and metric."""
    table = schema.measurement.c
    found: dict[tuple[int, str], float] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(table.job_id, table.metric, table.seconds).where(
                table.job_id.in_(page), table.side == Side.OURS
            )
        )
        found |= {(row.job_id, row.metric): row.seconds for row in rows}
    return found
