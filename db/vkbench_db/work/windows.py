"""What is in flight to each device: a dispatcher keeps that within a window.

One statement answers for all devices, and looks into the index of the pick once for each: it reads
no more rows than are in flight, however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from vkbench.job import IN_FLIGHT, JobState
from vkbench_db import schema


@dataclass(frozen=True, kw_only=True)
class DeviceLoad:
    """The jobs that are in flight to a device."""

    jobs: int
    seconds: float  # of estimated work


def loads(tx: Connection, devices: Collection[str]) -> dict[str, DeviceLoad]:
    """What is in flight to each of these devices."""
    return _loads(tx, schema.device.c.key.in_(devices))


def awaited(tx: Connection) -> dict[str, DeviceLoad]:
    """The devices that queued jobs wait for, unless paused, with what is in flight to each."""
    job, device = schema.job.c, schema.device.c
    # Not EXISTS: a join with all queued jobs could be planned for it.
    queued = (
        select(job.id)
        .where(job.device_id == device.id, job.state == JobState.QUEUED)
        .limit(1)
        .scalar_subquery()
    )
    return _loads(tx, ~device.paused, queued.is_not(None))


def _loads(tx: Connection, *which: ColumnElement[bool]) -> dict[str, DeviceLoad]:
    job, device = schema.job.c, schema.device.c
    mine = (job.device_id == device.id, job.state.in_(IN_FLIGHT))
    count = select(func.count()).where(*mine).scalar_subquery()
    seconds = select(func.sum(job.estimate_seconds)).where(*mine).scalar_subquery()
    rows = tx.execute(select(device.key, count, seconds).where(*which))
    return {row[0]: DeviceLoad(jobs=row[1], seconds=row[2] or 0.0) for row in rows}
