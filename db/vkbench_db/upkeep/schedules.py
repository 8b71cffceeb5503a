"""Schedules, and a slot for each time that one is due: two schedulers cannot use a slot twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, select, true, update

from vkbench.errors import UnknownName, UsageError
from vkbench.job import ACTIVE
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.rows import fetch, insert_missing, insert_new, record_of


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One time at which a schedule was due."""

    at: float
    run: int | None  # None: nothing was run
    note: str  # why not, or what was left out


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A selection that is submitted again and again."""

    id: int
    name: str
    cron: str  # in UTC
    selection: Mapping[str, Any]  # vkbench_scheduler.planning.selection.Selection
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
    """Store a new schedule; UsageError if the name is taken or blank."""
    if not name.strip() or name != name.strip():
        raise UsageError(f"'{name}' is no name for a schedule: give it a word")
    taken = select(schema.schedule.c.id).where(schema.schedule.c.name == name)
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
    insert_missing(tx, schema.schedule, [row])


def list_schedules(tx: Connection, now: float | None = None) -> list[Schedule]:
    """All schedules, by name.

    With `now`, later slots do not count as their last: the clock that took them was ahead.
    """
    schedule, slot = schema.schedule.c, schema.schedule_slot.c
    newest = (
        select(slot.schedule_id, func.max(slot.slot).label("slot"))
        .where(true() if now is None else slot.slot <= now)
        .group_by(slot.schedule_id)
        .subquery()
    )
    rows = tx.execute(
        select(schema.schedule, slot.slot, slot.run_id, slot.note)
        .outerjoin(newest, newest.c.schedule_id == schedule.id)
        .outerjoin(
            schema.schedule_slot, (slot.schedule_id == schedule.id) & (slot.slot == newest.c.slot)
        )
        .order_by(schedule.name)
    ).mappings()
    return [
        record_of({**row, "user": row["user_name"], "last": _slot(row)}, Schedule) for row in rows
    ]


def _slot(row: RowMapping) -> Slot | None:
    at = row["slot"]
    return None if at is None else Slot(at=at, run=row["run_id"], note=row["note"])


def find(tx: Connection, name: str, now: float | None = None) -> Schedule:
    """The schedule of this name; UnknownName with the nearest names if there is none."""
    known = {schedule.name: schedule for schedule in list_schedules(tx, now)}
    if name not in known:
        raise UnknownName("schedule", name, names.nearest(name, list(known)))
    return known[name]


def remove(tx: Connection, schedule: int) -> None:
    """Delete a schedule; its runs stay."""
    slot = schema.schedule_slot.c
    tx.execute(delete(schema.schedule_slot).where(slot.schedule_id == schedule))
    tx.execute(delete(schema.schedule).where(schema.schedule.c.id == schedule))


def enable(tx: Connection, schedule: int, enabled: bool) -> None:
    """Pause or resume a schedule."""
    where = schema.schedule.c.id == schedule
    tx.execute(update(schema.schedule).where(where).values(is_enabled=enabled))


def begin(tx: Connection, schedule: int, now: float) -> None:
    """Count slots from now on: the clock was ahead when the schedule was added."""
    where = schema.schedule.c.id == schedule
    tx.execute(update(schema.schedule).where(where).values(created_at=now))


def take_slot(tx: Connection, schedule: int, at: float, note: str = "") -> bool:
    """Take a slot by inserting its row; False if another scheduler has inserted it."""
    row = {"schedule_id": schedule, "slot": at, "run_id": None, "note": note}
    return insert_new(tx, schema.schedule_slot, row)


def settle_slot(tx: Connection, schedule: int, at: float, run: int | None, note: str) -> None:
    """Store the run of a slot, or why it has none."""
    slot = schema.schedule_slot.c
    where = (slot.schedule_id == schedule, slot.slot == at)
    tx.execute(update(schema.schedule_slot).where(*where).values(run_id=run, note=note))


def slots(tx: Connection, schedule: int, limit: int | None = 20) -> list[Slot]:
    """The slots of a schedule, newest first."""
    slot = schema.schedule_slot.c
    query = (
        select(slot.slot.label("at"), slot.run_id.label("run"), slot.note)
        .where(slot.schedule_id == schedule)
        .order_by(slot.slot.desc())
        .limit(limit)
    )
    return fetch(tx, query, Slot)


def unfinished_runs(tx: Connection, schedule: int) -> dict[str, int]:
    """Devices (by key) that still have jobs of a schedule's runs, and the newest such run."""
    job, slot, device = schema.job.c, schema.schedule_slot.c, schema.device.c
    rows = tx.execute(
        select(device.key, func.max(job.run_id))
        .join(schema.schedule_slot, slot.run_id == job.run_id)
        .join(schema.device, device.id == job.device_id)
        .where(slot.schedule_id == schedule, job.state.in_(ACTIVE))
        .group_by(device.key)
    )
    return {row[0]: row[1] for row in rows}
