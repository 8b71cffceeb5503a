"""The samples behind the timings of a job."""

from __future__ import annotations

import zlib
from base64 import b64encode
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.result import unpack_samples
from vkbench_db import schema


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
    rows = tx.execute(
        select(
            *(timing.metric, timing.side, timing.seconds, timing.low, timing.high),
            *(timing.count.label("samples_taken"), timing.launches, timing.samples),
        )
        .where(timing.job_id == job)
        .order_by(timing.metric, timing.side)
    )
    return [
        Samples(
            job=job,
            metric=row.metric,
            side=row.side,
            seconds=row.seconds,
            low=row.low,
            high=row.high,
            count=row.samples_taken,
            launches=row.launches,
            samples=unpacked(row.samples),
        )
        for row in rows
    ]


def unpacked(packed: bytes) -> list[float]:
    """Samples as they are stored; none where they cannot be read."""
    try:
        return unpack_samples(b64encode(packed).decode())
    except (ValueError, zlib.error):  # some imports brought none
        return []
