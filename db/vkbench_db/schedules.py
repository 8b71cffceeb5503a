"""Schedules and the times that they came due: one row each, which two schedulers cannot double."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from vkbench import names
from vkbench.errors import UnknownName, UsageError
from vkbench.job import ACTIVE
from vkbench_db import models
from vkbench_db.rows import insert_missing, insert_new


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One time that a schedule came due."""

    at: float
    run: int | None  # None: nothing was run
    note: str  # why not, or what was left out


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Work that comes again."""

    id: int
    name: str
    cron: str  # in UTC
    selection: Mapping[str, Any]  # vkbench_scheduler.selection.Selection
    is_enabled: bool
    created_at: float
    user: str
    last: Slot | None  # the newest

    @property
    def since(self) -> float:
        """Slots up to here are settled."""
        return self.last.at if self.last else self.created_at


def add(
    tx: Connection, *, name: str, cron: str, selection: Mapping[str, Any], user: str, now: float
) -> None:
    """A new schedule; UsageError when there is one of that name, or it is none."""
    if not name.strip() or name != name.strip():
        raise UsageError(f"'{name}' is no name for a schedule: give it a word")
    taken = select(models.Schedule.id).where(models.Schedule.name == name)
    if tx.execute(taken).first():
        raise UsageError(f"there is a schedule '{name}': `vkbench schedule rm {name}` removes it")
    row = {
        "name": name,
        "cron": cron,
        "selection": dict(selection),
        "is_enabled": True,
        "created_at": now,
        "user_name": user,
    }
    insert_missing(tx, models.Schedule, [row])


def listed(tx: Connection) -> list[Schedule]:
    """All schedules, by name."""
    schedule, slot = models.Schedule, models.ScheduleSlot
    newest = (
        select(slot.schedule_id, func.max(slot.slot).label("slot"))
        .group_by(slot.schedule_id)
        .subquery()
    )
    rows = tx.execute(
        select(schedule.__table__, slot.slot, slot.run_id, slot.note)
        .outerjoin(newest, newest.c.schedule_id == schedule.id)
        .outerjoin(slot, (slot.schedule_id == schedule.id) & (slot.slot == newest.c.slot))
        .order_by(schedule.name)
    )
    return [_schedule(row) for row in rows]


def find(tx: Connection, name: str) -> Schedule:
    """A schedule by name; UnknownName with the nearest otherwise."""
    known = {each.name: each for each in listed(tx)}
    if name not in known:
        raise UnknownName("schedule", name, names.nearest(name, list(known)))
    return known[name]


def remove(tx: Connection, schedule: int) -> None:
    """Forget a schedule; its runs stay."""
    slot = models.ScheduleSlot
    tx.execute(delete(slot).where(slot.schedule_id == schedule))
    tx.execute(delete(models.Schedule).where(models.Schedule.id == schedule))


def enable(tx: Connection, schedule: int, enabled: bool) -> None:
    """Pause or resume a schedule."""
    where = models.Schedule.id == schedule
    tx.execute(update(models.Schedule).where(where).values(is_enabled=enabled))


def take_slot(tx: Connection, schedule: int, at: float, note: str = "") -> bool:
    """Whether this slot is ours: who inserts its row decides, and the others wait for that."""
    row = {"schedule_id": schedule, "slot": at, "run_id": None, "note": note}
    return insert_new(tx, models.ScheduleSlot, row)


def settle_slot(tx: Connection, schedule: int, at: float, run: int | None, note: str) -> None:
    """Note what came of a slot that is ours."""
    slot = models.ScheduleSlot
    where = (slot.schedule_id == schedule, slot.slot == at)
    tx.execute(update(slot).where(*where).values(run_id=run, note=note))


def slots(tx: Connection, schedule: int, limit: int | None = 20) -> list[Slot]:
    """The slots of a schedule, newest first."""
    slot = models.ScheduleSlot
    rows = tx.execute(
        select(slot.slot, slot.run_id, slot.note)
        .where(slot.schedule_id == schedule)
        .order_by(slot.slot.desc())
        .limit(limit)
    )
    return [Slot(at=row.slot, run=row.run_id, note=row.note) for row in rows]


def unfinished(tx: Connection, schedule: int) -> dict[str, int]:
    """Devices (by key) that still have jobs of a schedule's runs, and the newest such run."""
    job, slot, device = models.Job, models.ScheduleSlot, models.Device
    rows = tx.execute(
        select(device.key, func.max(job.run_id))
        .join(slot, slot.run_id == job.run_id)
        .join(device, device.id == job.device_id)
        .where(slot.schedule_id == schedule, job.state.in_(ACTIVE))
        .group_by(device.key)
    )
    return {row[0]: row[1] for row in rows}


def _schedule(row: Row[Any]) -> Schedule:
    last = Slot(at=row.slot, run=row.run_id, note=row.note) if row.slot is not None else None
    return Schedule(
        id=row.id,
        name=row.name,
        cron=row.cron,
        selection=row.selection,
        is_enabled=row.is_enabled,
        created_at=row.created_at,
        user=row.user_name,
        last=last,
    )
