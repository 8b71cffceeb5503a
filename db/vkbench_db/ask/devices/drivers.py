"""Which drivers were added on the hosts of devices, as their workers say."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from vkbench.device import HostDriver
from vkbench.messages.wire import from_builtins
from vkbench_db import schema


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
