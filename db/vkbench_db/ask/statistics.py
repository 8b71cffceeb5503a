"""What drivers made of kernels: the statistics of jobs."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select

from vkbench.result import Statistic
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import record_of


def statistics_of(tx: Connection, jobs: Iterable[int]) -> dict[int, list[Statistic]]:
    """The statistics of each job that has some, by name."""
    table = schema.statistic
    by_job: dict[int, list[Statistic]] = {}
    for page in batches(sorted(set(jobs))):
        query = select(table).where(table.c.job_id.in_(page))
        for row in tx.execute(query.order_by(table.c.job_id, table.c.name)).mappings():
            by_job.setdefault(row["job_id"], []).append(record_of({**row}, Statistic))
    return by_job
