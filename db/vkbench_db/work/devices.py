"""Devices: registered by what their workers announce, paused and resumed by people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, select, update

from vkbench.device import DeviceFacts, Environment
from vkbench.wire import Announcement, to_builtins
from vkbench_db import schema
from vkbench_db.rows import insert_missing


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


def pause(tx: Connection, device: str, paused: bool) -> bool:
    """Stop or resume sending jobs to a device; return whether there is such a device."""
    changed = tx.execute(
        update(schema.device).where(schema.device.c.key == device).values(paused=paused)
    )
    return changed.rowcount > 0


def _host(tx: Connection, name: str) -> int:
    host = schema.host.c
    insert_missing(tx, schema.host, [{"name": name}])
    return tx.execute(select(host.id).where(host.name == name)).scalar_one()
