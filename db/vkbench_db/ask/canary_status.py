"""The last canary of each device: whether the device is as fast as it was."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select

from vkbench_db import schema


@dataclass(frozen=True, kw_only=True)
class Steadiness:
    """What the last canary of a device found."""

    at: float
    deviation: float | None  # from its own history, in sigmas, positive if slower; None without one
    is_off: bool

    @property
    def word(self) -> str:
        """off | new (no history yet) | steady."""
        return "off" if self.is_off else "new" if self.deviation is None else "steady"


def steadiness(tx: Connection) -> dict[str, Steadiness]:
    """The last canary by device key, for the devices that have had one."""
    canary, device = schema.canary.c, schema.device.c
    last = (
        select(canary.device_id, func.max(canary.measured_at).label("at"))
        .group_by(canary.device_id)
        .subquery()
    )
    rows = tx.execute(
        select(device.key, canary.measured_at, canary.deviation, canary.is_off)
        .join(last, and_(last.c.device_id == canary.device_id, last.c.at == canary.measured_at))
        .join(schema.device, device.id == canary.device_id)
    )
    return {
        row.key: Steadiness(at=row.measured_at, deviation=row.deviation, is_off=row.is_off)
        for row in rows
    }
