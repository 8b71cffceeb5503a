"""The last jobs of each device, and how many of them failed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.job import JobState
from vkbench_db import schema

JOBS = 100  # that a device ended last


@dataclass(frozen=True, kw_only=True)
class Lately:
    """The last jobs of a device."""

    ended: int = 0  # JOBS, or fewer where it ended fewer
    failed: int = 0  # of them


def lately(tx: Connection) -> dict[str, Lately]:
    """How every device did, by its key."""
    job, device = schema.job.c, schema.device.c
    found = {}
    for row in tx.execute(select(device.id, device.key)).all():
        # a device at a time: each question is the end of one index
        states = tx.execute(
            select(job.state)
            .where(job.device_id == row.id, job.finished_at.is_not(None))
            .order_by(job.finished_at.desc())
            .limit(JOBS)
        ).scalars()
        ended = list(states)
        failed = sum(state == JobState.FAILED for state in ended)
        found[row.key] = Lately(ended=len(ended), failed=failed)
    return found
