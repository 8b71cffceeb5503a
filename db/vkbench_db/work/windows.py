"""How much work is in flight to each device, which the dispatcher keeps within a window.

One statement answers for all devices, and looks into the index of the pick once for each: it reads
no more rows than are in flight, however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, ScalarSelect, func, select

from vkbench.job import IN_FLIGHT, JobState
from vkbench_db import schema

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DeviceLoad:
    """The jobs that are in flight to a device."""

    jobs: int
    seconds: float  # of estimated work


def loads(tx: Connection, devices: Collection[str]) -> dict[str, DeviceLoad]:
    """What is in flight to each of these devices."""
    return _loads(tx, schema.device.c.key.in_(devices))


def awaited_devices(tx: Connection, most_seconds: float) -> dict[str, DeviceLoad]:
    """The devices that queued jobs wait for, with what is in flight to each.

    Those that are paused are left out, and those with more than `most_seconds` in flight.
    """
    job, device = schema.job.c, schema.device.c
    # Not EXISTS: a join with all queued jobs could be planned for it.
    queued = (
        select(job.id)
        .where(job.device_id == device.id, job.state == JobState.QUEUED)
        .limit(1)
        .scalar_subquery()
    )
    has_room = func.coalesce(_in_flight(func.sum(job.estimate_seconds)), 0.0) <= most_seconds
    return _loads(tx, ~device.paused, has_room, queued.is_not(None))


def _loads(tx: Connection, *which: ColumnElement[bool]) -> dict[str, DeviceLoad]:
    estimate = schema.job.c.estimate_seconds
    # Not of rows: an index alone would answer that, and might be read for all jobs of a device.
    count, seconds = _in_flight(func.count(estimate)), _in_flight(func.sum(estimate))
    rows = tx.execute(select(schema.device.c.key, count, seconds).where(*which))
    return {row[0]: DeviceLoad(jobs=row[1], seconds=row[2] or 0.0) for row in rows}


def _in_flight(value: ColumnElement[T]) -> ScalarSelect[T]:
    """A value of the jobs that are in flight to a device."""
    job = schema.job.c
    mine = (job.device_id == schema.device.c.id, job.state.in_(IN_FLIGHT))
    return select(value).where(*mine).correlate(schema.device).scalar_subquery()
