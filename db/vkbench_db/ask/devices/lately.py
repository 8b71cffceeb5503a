"""How each device did lately: how many of its last jobs failed, and its last canary."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select

from vkbench.job import JobState
from vkbench_db import schema

JOBS = 100  # that a device ended last


@dataclass(frozen=True, kw_only=True)
class Lately:
    """The last jobs of a device."""

    ended: int = 0  # JOBS, or fewer where it ended fewer
    failed: int = 0  # of them
    newest_at: float | None = None  # when the last of them ended


def lately(tx: Connection) -> dict[str, Lately]:
    """How every device did, by its key."""
    job, device = schema.job.c, schema.device.c
    by_device = {}
    for row in tx.execute(select(device.id, device.key)).all():
        # a device at a time: each question is the end of one index
        rows = tx.execute(
            select(job.state, job.finished_at)
            .where(job.device_id == row.id, job.finished_at.is_not(None))
            .order_by(job.finished_at.desc())
            .limit(JOBS)
        ).all()
        failed = sum(job_row.state == JobState.FAILED for job_row in rows)
        newest_at = rows[0].finished_at if rows else None
        by_device[row.key] = Lately(ended=len(rows), failed=failed, newest_at=newest_at)
    return by_device


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
    earlier = schema.canary.alias("earlier")
    last = (  # the end of an index for each device, where groups of all would read it whole
        select(func.max(earlier.c.measured_at))
        .where(earlier.c.device_id == device.id)
        .correlate(schema.device)
        .scalar_subquery()
    )
    rows = tx.execute(
        select(device.key, canary.measured_at, canary.deviation, canary.is_off)
        .select_from(schema.device)
        .join(schema.canary, and_(canary.device_id == device.id, canary.measured_at == last))
        .order_by(device.id)
    )
    return {
        row.key: Steadiness(at=row.measured_at, deviation=row.deviation, is_off=row.is_off)
        for row in rows
    }
