"""Devices as selectors choose them, and the keys of those that a selector means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.errors import NothingToDo
from vkbench.selector import choose
from vkbench.settings import settings
from vkbench.words.names import MOST_TOLD
from vkbench_db import schema


@dataclass(frozen=True, kw_only=True)
class NamedDevice:
    """The properties of a device that selectors look at."""

    key: str
    host: str
    index: int
    name: str
    uuid: str
    is_served: bool  # a worker announced it here, ever: not known by imports alone


def device_keys(tx: Connection, selectors: Sequence[str]) -> list[str]:
    """Keys of the devices that selectors mean on this machine; no selector means all."""
    return [device.key for device in choose(selectors, named_devices(tx), settings().host)]


def served_keys(tx: Connection, selectors: Sequence[str]) -> list[str]:
    """Keys of the devices that selectors mean and that a worker here has announced."""
    meant = choose(selectors, named_devices(tx), settings().host)
    return [device.key for device in only_served(meant)]


def only_served(meant: Sequence[NamedDevice]) -> list[NamedDevice]:
    """The devices that a worker here has announced; NothingToDo if all came with imports."""
    served = [device for device in meant if device.is_served]
    if not served:
        listed = ", ".join(f"{device.name} ({device.key})" for device in meant[:MOST_TOLD])
        more = f" and {len(meant) - MOST_TOLD} more" if len(meant) > MOST_TOLD else ""
        raise NothingToDo(f"no worker here has served {listed}{more}: known from an import alone")
    return served


def named_devices(tx: Connection) -> list[NamedDevice]:
    """All devices as selectors see them, in the order in which they were stored."""
    device, host = schema.device.c, schema.host.c
    rows = tx.execute(
        select(device.key, host.name.label("host"), device.name, device.facts, device.last_seen)
        .join(schema.host, host.id == device.host_id)
        .order_by(device.id)
    )
    return [
        NamedDevice(
            key=row.key,
            host=row.host,
            index=row.facts["index"],
            name=row.name,
            uuid=row.facts["uuid"],
            is_served=row.last_seen is not None,
        )
        for row in rows
    ]
