"""Heartbeats in SQL: which schedulers run, and which workers they see.

A scheduler keeps its row fresh while it runs and takes it away when it is told to stop. A device
was last seen when a scheduler last saw its worker, or when a run on this machine, which names no
worker, last opened it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from vkbench.job import ACTIVE
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record

BEAT_SECONDS = 10.0  # how often a scheduler says that it is there
LATELY_SECONDS = 60.0  # a scheduler that is silent for longer counts as gone
FORGOTTEN_SECONDS = 30 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Station:
    """A device that has jobs to run, and when its worker was last seen."""

    key: str
    name: str
    host: str
    paused: bool
    last_seen: float | None  # its worker; None without one
    paused_reason: str = ""
    paused_by: str = ""
    paused_at: float | None = None

    def is_served(self, now: float) -> bool:
        """Whether a scheduler has seen its worker lately."""
        return self.last_seen is not None and now - self.last_seen <= LATELY_SECONDS


@dataclass(frozen=True, kw_only=True)
class Attendance:
    """The last scheduler seen, and the devices that some work needs."""

    scheduler_seen: float | None  # the last one; None if there is none
    stations: Sequence[Station]

    def has_scheduler(self, now: float) -> bool:
        """Whether a scheduler has run lately."""
        return self.scheduler_seen is not None and now - self.scheduler_seen <= LATELY_SECONDS


def beat(tx: Connection, scheduler: str, now: float) -> None:
    """Store that a scheduler runs; delete schedulers that have been silent for a month."""
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    row = dialect.insert(schema.scheduler).values(name=scheduler, seen_at=now)
    tx.execute(row.on_conflict_do_update(index_elements=["name"], set_={"seen_at": now}))
    tx.execute(delete(schema.scheduler).where(schema.scheduler.c.seen_at < now - FORGOTTEN_SECONDS))


def leave(tx: Connection, scheduler: str) -> None:
    """Delete the row of a scheduler that ends."""
    tx.execute(delete(schema.scheduler).where(schema.scheduler.c.name == scheduler))


def worker_seen() -> ColumnElement[float | None]:
    """When a device's worker was last seen; NULL where the last to open it was no worker."""
    device = schema.device.c
    return case((device.worker != "", device.last_seen), else_=None)


def attendance(
    tx: Connection, *, run: int | None = None, devices: Sequence[str] = ()
) -> Attendance:
    """The scheduler and devices that a run's unfinished jobs, or these devices' jobs, wait for."""
    device, host, job = schema.device.c, schema.host.c, schema.job.c
    waiting = select(job.device_id).where(job.run_id == run, job.state.in_(ACTIVE))
    is_chosen = device.key.in_(devices) if run is None else device.id.in_(waiting)
    query = (
        select_record(Station, schema.device, last_seen=worker_seen())
        .join(schema.host, host.id == device.host_id)
        .where(is_chosen)
        .order_by(host.name, device.name, device.key)
    )
    return Attendance(
        scheduler_seen=tx.execute(select(func.max(schema.scheduler.c.seen_at))).scalar(),
        stations=fetch(tx, query, Station),
    )
