"""What waits for each device, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from vkbench.job import ACTIVE, AWAITED, IN_FLIGHT, JobState
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_db.upkeep.attendance import LATELY_SECONDS, worker_seen


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A device that is not known by imports alone, and the jobs that it still has to do."""

    key: str
    name: str
    host: str
    paused: bool
    paused_reason: str
    paused_by: str
    paused_at: float | None
    last_seen: float | None  # its worker; None where no worker serves it, only runs on its machine
    queued: int
    in_flight: int
    oldest_at: float | None  # when the run of its oldest job was submitted; None without jobs

    @property
    def waiting(self) -> int:
        """Jobs that have not ended."""
        return self.queued + self.in_flight

    def is_served(self, now: float) -> bool:
        """Whether a scheduler has seen its worker lately."""
        return self.last_seen is not None and now - self.last_seen <= LATELY_SECONDS


def queues(tx: Connection) -> list[Queue]:
    """The queue of every device that is not known by imports alone, by host and name."""
    device, host, job, run = schema.device.c, schema.host.c, schema.job.c, schema.run.c
    devices = tx.execute(select(device.id)).scalars().all()
    of_device = (
        select(
            job.device_id,
            func.count().filter(job.state == JobState.QUEUED).label("queued"),
            func.count().filter(job.state.in_(IN_FLIGHT)).label("in_flight"),
            func.min(run.created_at).label("oldest_at"),
        )
        .join(schema.run, run.id == job.run_id)
        .where(job.device_id.in_(devices), job.state.in_(ACTIVE))  # by the index of the pick
        .group_by(job.device_id)
        .subquery()
    )
    query = (
        select_record(
            Queue,
            *(schema.device, of_device),
            last_seen=worker_seen(),
            queued=func.coalesce(of_device.c.queued, 0),
            in_flight=func.coalesce(of_device.c.in_flight, 0),
        )
        .join(schema.host, host.id == device.host_id)
        .outerjoin(of_device, of_device.c.device_id == device.id)
        .where(device.last_seen.is_not(None))
        .order_by(host.name, device.name, device.key)
    )
    return fetch(tx, query, Queue)


def reasons_to_wait(tx: Connection) -> Mapping[str, str]:
    """Why jobs of devices wait for bundles, by the devices' keys.

    Looks at the first queued job of each run: a worker hands back what it cannot do in order.
    """
    job, device = schema.job.c, schema.device.c
    devices = tx.execute(select(device.id)).scalars().all()
    first = (
        select(func.min(job.id).label("id"))
        .where(job.device_id.in_(devices), job.state == JobState.QUEUED)  # by the index of the pick
        .group_by(job.device_id, job.run_id)
        .subquery()
    )
    rows = tx.execute(
        select(device.key, func.max(job.reason).label("reason"))
        .join(schema.job, job.device_id == device.id)
        .join(first, first.c.id == job.id)
        .where(job.cause == "", job.reason.contains(AWAITED))
        .group_by(device.key)
    )
    return {row.key: row.reason for row in rows}
