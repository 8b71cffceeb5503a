"""Devices: registered by what their workers announce, paused and resumed by people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, select, update

from vkbench.device import DeviceFacts, Environment
from vkbench.wire import Announcement, to_builtins
from vkbench_db import models
from vkbench_db.rows import insert_missing


def register_device(tx: Connection, announcement: Announcement, now: float) -> int:
    """Note that a worker serves a device, and what both are; says the device's id."""
    store_environment(tx, announcement.environment)
    device = store_device(tx, announcement.facts)
    facts = announcement.facts
    tx.execute(
        update(models.Device)
        .where(models.Device.id == device)
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
    """The id of a device; one that was never seen before is stored, a known one left as it is."""
    device = models.Device
    known = tx.execute(select(device.id).where(device.key == facts.key)).scalar()
    if known is not None:
        return known
    row = {
        "key": facts.key,
        "host_id": _host(tx, facts.host),
        "name": facts.name,
        "facts": to_builtins(facts),
    }
    insert_missing(tx, device, [row])
    return tx.execute(select(device.id).where(device.key == facts.key)).scalar_one()


def store_environment(tx: Connection, environment: Environment) -> str:
    """The hash of an environment, which is stored if it is new."""
    row: dict[str, Any] = {
        "hash": environment.hash,
        "driver": environment.driver,
        "driver_version": environment.driver_version,
        "facts": asdict(environment),
    }
    known = select(models.Environment.hash).where(models.Environment.hash == environment.hash)
    if tx.execute(known).first() is None:
        insert_missing(tx, models.Environment, [row])
    return environment.hash


def pause(tx: Connection, device: str, paused: bool) -> bool:
    """Stop or resume sending jobs to a device; says whether there is such a device."""
    changed = tx.execute(
        update(models.Device).where(models.Device.key == device).values(paused=paused)
    )
    return changed.rowcount > 0


def _host(tx: Connection, name: str) -> int:
    host = models.Host
    insert_missing(tx, host, [{"name": name}])
    return tx.execute(select(host.id).where(host.name == name)).scalar_one()
