"""Devices: registered by what their workers announce, paused and resumed by people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, func, select, update

from vkbench.device import DeviceFacts, Environment
from vkbench.wire import Announcement, to_builtins
from vkbench_db import schema
from vkbench_db.rows import insert_missing

SCHEDULER = "scheduler"  # who pauses a device that seems broken


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Why a device gets no more jobs."""

    reason: str = ""
    by: str = ""  # a user, or SCHEDULER
    at: float | None = None
    recall: bool = False  # its worker hands back what it holds, the running job too


def register_device(tx: Connection, announcement: Announcement, now: float) -> int:
    """Store that a worker serves a device, and the facts of both; return the device's id."""
    store_environment(tx, announcement.environment)
    device = store_device(tx, announcement.facts)
    facts = announcement.facts
    tx.execute(
        update(schema.device)
        .where(schema.device.c.id == device)
        .values(
            name=facts.name,
            facts=to_builtins(facts),
            worker=announcement.worker,
            bundle=announcement.bundle,
            environment=announcement.environment.hash,
            last_seen=now,
        )
    )
    return device


def store_device(tx: Connection, facts: DeviceFacts) -> int:
    """Store a device if it is new, and leave a known one as it is; return its id."""
    device = schema.device.c
    known = tx.execute(select(device.id).where(device.key == facts.key)).scalar()
    if known is not None:
        return known
    row = {
        "key": facts.key,
        "host_id": _host(tx, facts.host),
        "name": facts.name,
        "facts": to_builtins(facts),
    }
    insert_missing(tx, schema.device, [row])
    return tx.execute(select(device.id).where(device.key == facts.key)).scalar_one()


def store_environment(tx: Connection, environment: Environment) -> str:
    """Store an environment if it is new; return its hash."""
    row: dict[str, Any] = {
        "hash": environment.hash,
        "driver": environment.driver,
        "driver_version": environment.driver_version,
        "facts": asdict(environment),
    }
    known = select(schema.environment.c.hash).where(schema.environment.c.hash == environment.hash)
    if tx.execute(known).first() is None:
        insert_missing(tx, schema.environment, [row])
    return environment.hash


def note_environments(tx: Connection, devices: Iterable[int]) -> None:
    """Give devices that no worker here has announced the environment of their newest attempt."""
    job, attempt, device = schema.job.c, schema.attempt.c, schema.device.c
    newest = (
        select(attempt.environment)
        .join(schema.job, job.id == attempt.job_id)
        .where(job.device_id == device.id, attempt.environment != "")
        .order_by(attempt.recorded_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    tx.execute(
        update(schema.device)
        .where(device.id.in_(tuple(devices)), device.last_seen.is_(None))
        .values(environment=func.coalesce(newest, device.environment))
    )


def pause(tx: Connection, device: str, said: Pause) -> bool:
    """Stop sending jobs to a device; return whether there is such a device."""
    changed = tx.execute(
        update(schema.device)
        .where(schema.device.c.key == device)
        .values(
            paused=True,
            paused_reason=said.reason,
            paused_by=said.by,
            paused_at=said.at,
            recalled=said.recall,
            on_trial=False,
            pause_told_at=None,
        )
    )
    return changed.rowcount > 0


def resume(tx: Connection, device: str, now: float, *, as_is: bool = False) -> bool:
    """Send jobs to a device again; return whether it is on trial.

    One that a scheduler had paused is, until a job passes on it; not if it is taken as it is.
    """
    table = schema.device.c
    row = tx.execute(
        select(table.paused, table.paused_by, table.on_trial).where(table.key == device)
    ).one()
    suspected = row.on_trial or (row.paused and row.paused_by == SCHEDULER)
    on_trial: bool = suspected and not as_is
    tx.execute(
        update(schema.device)
        .where(table.key == device)
        .values(
            paused=False,
            paused_reason="",
            paused_by="",
            paused_at=None,
            recalled=False,
            resumed_at=now,
            on_trial=on_trial,
        )
    )
    return on_trial


def recalled(tx: Connection) -> list[str]:
    """Keys of the devices whose workers are to hand back what they hold."""
    device = schema.device.c
    return list(tx.execute(select(device.key).where(device.recalled).order_by(device.id)).scalars())


def _host(tx: Connection, name: str) -> int:
    host = schema.host.c
    insert_missing(tx, schema.host, [{"name": name}])
    return tx.execute(select(host.id).where(host.name == name)).scalar_one()
