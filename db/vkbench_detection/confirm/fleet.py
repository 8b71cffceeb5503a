"""Which devices a worker serves, so that they can measure again, and which are gone for good."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, or_, select

from vkbench_db import schema

SERVED_SECONDS = 60.0  # since its worker was last heard
WATCHED_SECONDS = 86_400.0  # a device that is away for longer is not waited for
GONE_SECONDS = 30 * 86_400.0  # without a worker and a result: no more are expected


def served_devices(tx: Connection, now: float) -> set[int]:
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


def watched_devices(tx: Connection, now: float) -> set[int]:
    """Devices on which a suspicion waits to be measured again, by workers or by people."""
    device = schema.device.c
    rows = tx.execute(select(device.id).where(device.last_seen >= now - WATCHED_SECONDS))
    return set(rows.scalars())


def gone_devices(tx: Connection, now: float) -> set[int]:
    """Devices that no worker has served and no result has come from for GONE_SECONDS."""
    device, job = schema.device.c, schema.job.c
    ended = select(job.id).where(job.device_id == device.id, job.finished_at > now - GONE_SECONDS)
    unseen = or_(device.last_seen.is_(None), device.last_seen <= now - GONE_SECONDS)
    return set(tx.execute(select(device.id).where(unseen, ~ended.exists())).scalars())


def device_ids(tx: Connection, keys: Collection[str]) -> set[int]:
    """The devices with these keys."""
    device = schema.device.c
    return set(tx.execute(select(device.id).where(device.key.in_(keys))).scalars())
