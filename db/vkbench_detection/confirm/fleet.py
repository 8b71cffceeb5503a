"""Which devices can measure something again: those that a worker serves."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from vkbench_db import schema

SERVED_SECONDS = 60.0  # since its worker was last heard
WATCHED_SECONDS = 86_400.0  # a device that is away for longer is not waited for


def served(tx: Connection, now: float) -> set[int]:
    """Devices that do what is submitted now."""
    device = schema.device.c
    rows = tx.execute(
        select(device.id).where(
            device.worker != "",
            device.paused.is_(False),
            device.last_seen >= now - SERVED_SECONDS,
        )
    )
    return set(rows.scalars())


def watched(tx: Connection, now: float) -> set[int]:
    """Devices on which a suspicion waits to be measured again, by workers or by people."""
    device = schema.device.c
    rows = tx.execute(select(device.id).where(device.last_seen >= now - WATCHED_SECONDS))
    return set(rows.scalars())


def device_ids(tx: Connection, keys: Collection[str]) -> set[int]:
    """The devices with these keys."""
    device = schema.device.c
    return set(tx.execute(select(device.id).where(device.key.in_(keys))).scalars())
