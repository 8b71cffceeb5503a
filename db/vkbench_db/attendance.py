"""Who is there to do the work: schedulers, which say so themselves, and workers, whom they see.

A scheduler keeps its row fresh while it runs and takes it away when it is told to stop. The moment
at which a device was last seen is that at which a scheduler last saw its worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from vkbench.job import ACTIVE
from vkbench_db.views import DEVICE, HOST, JOB, SCHEDULER

BEAT_SECONDS = 10.0  # how often a scheduler says that it is there
LATELY_SECONDS = 60.0  # whoever was not heard of for longer is taken for gone
FORGOTTEN_SECONDS = 30 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Station:
    """A device that has something to do."""

    key: str
    name: str
    host: str
    paused: bool
    last_seen: float | None  # its worker; None if never

    def is_served(self, now: float) -> bool:
        """Whether its worker was heard of lately."""
        return self.last_seen is not None and now - self.last_seen <= LATELY_SECONDS


@dataclass(frozen=True, kw_only=True)
class Attendance:
    """Who is there for some work: any scheduler, and the devices that are to do it."""

    scheduler_seen: float | None  # the last one; None if there is none
    stations: Sequence[Station]

    def has_scheduler(self, now: float) -> bool:
        """Whether a scheduler was heard of lately."""
        return self.scheduler_seen is not None and now - self.scheduler_seen <= LATELY_SECONDS


def beat(tx: Connection, scheduler: str, now: float) -> None:
    """Note that a scheduler is there; those that were silent for a month are forgotten."""
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    row = dialect.insert(SCHEDULER).values(name=scheduler, seen_at=now)
    tx.execute(row.on_conflict_do_update(index_elements=["name"], set_={"seen_at": now}))
    tx.execute(delete(SCHEDULER).where(SCHEDULER.c.seen_at < now - FORGOTTEN_SECONDS))


def leave(tx: Connection, scheduler: str) -> None:
    """Note that a scheduler ends."""
    tx.execute(delete(SCHEDULER).where(SCHEDULER.c.name == scheduler))


def attendance(
    tx: Connection, *, run: int | None = None, devices: Sequence[str] = ()
) -> Attendance:
    """Who is there for what a run has left to do, or for work on these devices (keys)."""
    device = DEVICE.c
    waiting = select(JOB.c.device_id).where(JOB.c.run_id == run, JOB.c.state.in_(ACTIVE))
    wanted = device.key.in_(devices) if run is None else device.id.in_(waiting)
    rows = tx.execute(
        select(device.key, device.name, HOST.c.name.label("host"), device.paused, device.last_seen)
        .join(HOST, HOST.c.id == device.host_id)
        .where(wanted)
        .order_by(HOST.c.name, device.name, device.key)
    )
    return Attendance(
        scheduler_seen=tx.execute(select(func.max(SCHEDULER.c.seen_at))).scalar(),
        stations=[Station(**row._mapping) for row in rows],
    )
