"""How far each device is: with one run, or with all that the fleet has to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import ColumnElement, Connection, func, or_, select

from vkbench.job import ACTIVE, FINISHED, JobState
from vkbench_db import schema
from vkbench_db.work.progress import JobCounts


@dataclass(frozen=True, kw_only=True)
class Tally(JobCounts):
    """The jobs of one device, by their states."""

    device: str  # key
    name: str
    host: str
    left_seconds: float  # estimated time on the device of what has not ended


def of_run(tx: Connection, run: int) -> list[Tally]:
    """The jobs of a run, a tally for each device that has any."""
    return _tallies(tx, schema.job.c.run_id == run)


def of_fleet(tx: Connection, since: float) -> list[Tally]:
    """What waits or runs, and what has ended since a moment, a tally for each device."""
    job = schema.job.c
    devices = tx.execute(select(schema.device.c.id)).scalars().all()
    return _tallies(
        tx,
        job.device_id.in_(devices),  # so that both halves are found by an index
        or_(job.state.in_(ACTIVE), job.finished_at >= since),
    )


def _tallies(tx: Connection, *where: ColumnElement[bool]) -> list[Tally]:
    device, host, job = schema.device.c, schema.host.c, schema.job.c
    of_device = (
        select(
            *(job.device_id, job.state, func.count().label("jobs")),
            func.sum(job.estimate_seconds).label("seconds"),
        )
        .where(*where)
        .group_by(job.device_id, job.state)
        .subquery()
    )
    rows = tx.execute(
        select(
            *(device.key, device.name, host.name.label("host")),
            *(of_device.c.state, of_device.c.jobs, of_device.c.seconds),
        )
        .join(schema.device, device.id == of_device.c.device_id)
        .join(schema.host, host.id == device.host_id)
        .order_by(host.name, device.name, device.key)
    ).all()
    return [
        _tally(key, name, host_name, [(JobState(row[3]), row[4], row[5]) for row in of_one])
        for (key, name, host_name), of_one in groupby(
            rows, key=lambda row: (row[0], row[1], row[2])
        )
    ]


def _tally(key: str, name: str, host: str, states: Sequence[tuple[JobState, int, float]]) -> Tally:
    return Tally(
        device=key,
        name=name,
        host=host,
        counts={state: jobs for state, jobs, _ in states},
        left_seconds=sum(seconds for state, _, seconds in states if state not in FINISHED),
    )
