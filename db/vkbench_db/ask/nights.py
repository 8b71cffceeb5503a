"""What a lab did in its last night, and in the one before: 24 hours each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from vkbench.job import FINISHED, JobState
from vkbench_db import schema

NIGHT_SECONDS = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Night:
    """The jobs that ended within 24 hours."""

    until: float
    ended: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by device key and state

    @property
    def began(self) -> float:
        """The moment from which on its jobs count."""
        return self.until - NIGHT_SECONDS

    def count(self, *states: JobState) -> int:
        """How many jobs ended in these states; in any, if none is named."""
        return sum(
            jobs
            for by_state in self.ended.values()
            for state, jobs in by_state.items()
            if state in (states or FINISHED)
        )

    def count_of_device(self, key: str) -> int:
        """How many jobs a device ended."""
        return sum(self.ended.get(key, {}).values())


def last_nights(tx: Connection, now: float) -> tuple[Night, Night] | None:
    """The last night and the one before; None if no job has ended yet.

    They end now, or with the newest job if that is over a night old.
    """
    finished_at = schema.job.c.finished_at
    newest = tx.execute(
        select(func.max(finished_at)).where(finished_at.is_not(None))  # by its index
    ).scalar()
    if newest is None:
        return None
    until = now if newest > now - NIGHT_SECONDS else newest
    return _night(tx, until), _night(tx, until - NIGHT_SECONDS)


def _night(tx: Connection, until: float) -> Night:
    job, device = schema.job.c, schema.device.c
    of_device = (
        select(job.device_id, job.state, func.count().label("jobs"))
        .where(job.finished_at > until - NIGHT_SECONDS, job.finished_at <= until)
        .group_by(job.device_id, job.state)
        .subquery()
    )
    ended: dict[str, dict[str, int]] = {}
    for row in tx.execute(
        select(device.key, of_device.c.state, of_device.c.jobs).join(
            schema.device, device.id == of_device.c.device_id
        )
    ):
        ended.setdefault(row.key, {})[row.state] = row.jobs
    return Night(until=until, ended=ended)
