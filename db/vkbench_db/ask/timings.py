"""Timings of jobs: which rows are of our kernels, and the samples behind them."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, select

from vkbench.result import Side, unpack_samples
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import record_of


def is_our_time(job: ColumnElement[int], metric: str) -> ColumnElement[bool]:
    """Whether a measurement is our kernel's, of a metric of a job."""
    timing = schema.measurement.c
    return and_(timing.job_id == job, timing.metric == metric, timing.side == Side.OURS)


def seconds_of(tx: Connection, jobs: Collection[int]) -> dict[tuple[int, str], float]:
    """What our kernel took in these jobs, by job and metric."""
    table = schema.measurement.c
    seconds: dict[tuple[int, str], float] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(table.job_id, table.metric, table.seconds).where(
                table.job_id.in_(page), table.side == Side.OURS
            )
        )
        seconds |= {(row.job_id, row.metric): row.seconds for row in rows}
    return seconds


@dataclass(frozen=True, kw_only=True)
class Samples:
    """What one metric of one side of a job was timed by."""

    job: int
    metric: str
    side: str
    seconds: float  # their median, as it was recorded
    low: float
    high: float
    count: int
    launches: int  # that each sample timed
    samples: list[float]  # seconds of one launch; empty where they cannot be read


def samples(tx: Connection, job: int) -> list[Samples]:
    """The samples of each metric and side of a job; none where it was not timed."""
    timing = schema.measurement.c
    query = (
        select(schema.measurement).where(timing.job_id == job).order_by(timing.metric, timing.side)
    )
    return [
        record_of({**row, "job": job, "samples": unpack_stored(row["samples"])}, Samples)
        for row in tx.execute(query).mappings()
    ]


def unpack_stored(packed: bytes) -> list[float]:
    """Samples as they are stored; none where they cannot be read."""
    try:
        return unpack_samples(b64encode(packed).decode())
    except (ValueError, zlib.error):  # some imports brought none
        return []
