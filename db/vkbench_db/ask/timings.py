"""Timings of given jobs, for the evidence of changes."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.batches import batches


def seconds_of(tx: Connection, jobs: Collection[int]) -> dict[tuple[int, str], float]:
    """Seconds of each metric of these jobs, by job and metric."""
    table = schema.measurement.c
    found: dict[tuple[int, str], float] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(table.job_id, table.metric, table.seconds).where(table.job_id.in_(page))
        )
        found |= {(row.job_id, row.metric): row.seconds for row in rows}
    return found
