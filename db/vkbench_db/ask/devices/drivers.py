"""Which drivers were added on the hosts of devices, as their workers say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.device import HostDriver, OwnDrivers
from vkbench.messages.wire import from_builtins
from vkbench_db import schema


@dataclass(frozen=True, kw_only=True)
class DeviceDrivers:
    """The drivers that a device can be reached through on its host, beside the installed one."""

    device: str  # key
    added: tuple[HostDriver, ...]  # by the host's user
    own: OwnDrivers | None  # that the host ran on; None of a worker that copies none


def read_drivers(tx: Connection, keys: Collection[str]) -> list[DeviceDrivers]:
    """The drivers of each device's host, as its worker said last."""
    device = schema.device.c
    rows = tx.execute(
        select(device.key, device.drivers, device.own_drivers)
        .where(device.key.in_(keys))
        .order_by(device.id)
    )
    return [
        DeviceDrivers(
            device=row.key,
            added=from_builtins(row.drivers or [], tuple[HostDriver, ...]),
            own=row.own_drivers and from_builtins(row.own_drivers, OwnDrivers),
        )
        for row in rows
    ]


def drivers_of_devices(
    tx: Connection, keys: Collection[str]
) -> dict[str, tuple[HostDriver, ...] | None]:
    """The drivers of the host of each device; None of a worker that runs jobs through none."""
    device = schema.device.c
    rows = tx.execute(
        select(device.key, device.drivers).where(device.key.in_(keys)).order_by(device.id)
    )
    return {
        row.key: None if row.drivers is None else from_builtins(row.drivers, tuple[HostDriver, ...])
        for row in rows
    }
