"""Which drivers were added on the hosts of devices, as their workers say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from vkbench.device import HostDriver, OwnDrivers
from vkbench.messages.wire import from_builtins
from vkbench_db import schema
from vkbench_db.ask.driver_names import name_drivers


@dataclass(frozen=True, kw_only=True)
class DeviceDrivers:
    """The drivers that a device can be reached through on its host, beside the installed one."""

    device: str  # key
    added: tuple[HostDriver, ...] | None  # by the host's user; None: it runs jobs through none
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
            added=None
            if row.drivers is None
            else from_builtins(row.drivers, tuple[HostDriver, ...]),
            own=row.own_drivers and from_builtins(row.own_drivers, OwnDrivers),
        )
        for row in rows
    ]


@dataclass(frozen=True, kw_only=True)
class TimedDriver:
    """A driver that a device was timed with, and when."""

    name: str  # what people call it, and `driver:` takes
    since: float
    until: float


def list_timed_drivers(tx: Connection, device: str) -> list[TimedDriver]:
    """The drivers that a device (key) was timed with, the newest first, by its canaries."""
    canary = schema.canary.c
    rows = tx.execute(
        select(
            canary.environment,
            func.min(canary.measured_at).label("since"),
            func.max(canary.measured_at).label("until"),
        )
        .join(schema.device, schema.device.c.id == canary.device_id)
        .where(schema.device.c.key == device)
        .group_by(canary.environment)
    ).all()
    drivers = name_drivers(tx) if rows else {}
    spans: dict[str, TimedDriver] = {}
    for row in rows:
        if driver := drivers.get(row.environment):
            name = driver.called
            known = spans.get(name)
            spans[name] = TimedDriver(
                name=name,
                since=min(row.since, known.since) if known else row.since,
                until=max(row.until, known.until) if known else row.until,
            )
    return sorted(spans.values(), key=lambda span: span.since, reverse=True)


def drivers_of_devices(
    tx: Connection, keys: Collection[str]
) -> dict[str, tuple[HostDriver, ...] | None]:
    """The drivers of the host of each device; None of a worker that runs jobs through none."""
    return {kept.device: kept.added for kept in read_drivers(tx, keys)}
