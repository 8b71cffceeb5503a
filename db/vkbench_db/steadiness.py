"""Whether devices are what they were: the last canary of each.

Light, as `queries` is: no command that lists devices waits for SQLAlchemy's ORM.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    Table,
    and_,
    func,
    select,
)

from vkbench_db.moment import Moment
from vkbench_db.views import DEVICE

CANARY = Table(
    "canary",
    MetaData(),
    Column("device_id", Integer),
    Column("measured_at", Moment),
    Column("deviation", Float),
    Column("is_off", Boolean),
)


@dataclass(frozen=True, kw_only=True)
class Steadiness:
    """What a device's last canary said."""

    at: float
    deviation: float | None  # in sigmas of its own history, slower is more; None without one
    is_off: bool

    @property
    def word(self) -> str:
        """In a word."""
        return "off" if self.is_off else "new" if self.deviation is None else "steady"


def steadiness(tx: Connection) -> dict[str, Steadiness]:
    """By the keys of the devices that ever had a canary."""
    canary, device = CANARY.c, DEVICE.c
    last = (
        select(canary.device_id, func.max(canary.measured_at).label("at"))
        .group_by(canary.device_id)
        .subquery()
    )
    rows = tx.execute(
        select(device.key, canary.measured_at, canary.deviation, canary.is_off)
        .join(last, and_(last.c.device_id == canary.device_id, last.c.at == canary.measured_at))
        .join(DEVICE, device.id == canary.device_id)
    )
    return {
        row.key: Steadiness(at=row.measured_at, deviation=row.deviation, is_off=row.is_off)
        for row in rows
    }
