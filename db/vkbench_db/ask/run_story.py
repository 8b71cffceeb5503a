"""What a run's page shows: its state on each device, why jobs failed, the same run before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, select

from vkbench.job import UNFINISHED, JobState
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_db.work.progress import JobCounts

LATELY_SECONDS = 60.0  # what rates are counted over
_BAD = (JobState.WRONG, JobState.FAILED, JobState.SKIPPED)
_MOST_REASONS = 5000
_LOOKED_BACK = 200  # runs before one that may have asked for the same
_OTHERWISE = ("bundle", "driver", "priority")  # of a selection: two runs may differ in these


@dataclass(frozen=True, kw_only=True)
class Share(JobCounts):
    """What a device has done of a run."""

    device: str  # key
    device_name: str
    host: str
    began_at: float | None  # when its first job was sent
    ended_at: float | None  # when its last one ended
    per_second: float | None  # jobs that ended lately; None while none did

    @property
    def bad(self) -> int:
        """Jobs that are wrong or failed."""
        return self.counts.get(JobState.WRONG, 0) + self.counts.get(JobState.FAILED, 0)

    @property
    def seconds_left(self) -> float | None:
        """At its present rate; None where that is unknown, or nothing is left."""
        left = sum(self.counts.get(state, 0) for state in UNFINISHED)
        return left / self.per_second if left and self.per_second else None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Jobs of a run that ended badly in the same way, numbers in their reasons aside."""

    state: str
    cause: str
    reason: str  # of the example
    count: int
    job: int  # an example
    case_name: str


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What a run was asked for, to find it again."""

    id: int
    label: str
    mode: str
    selection: Mapping[str, Any]


def shares(tx: Connection, run: int, now: float) -> list[Share]:
    """What each device has done of a run, by host and name."""
    job, device = schema.job.c, schema.device.c
    rows = tx.execute(
        select(
            *(job.device_id, job.state, func.count().label("jobs")),
            *(func.min(job.dispatched_at).label("began"), func.max(job.finished_at).label("ended")),
        )
        .where(job.run_id == run)
        .group_by(job.device_id, job.state)
    ).all()
    rates = _rates(tx, run, now)
    ids = {row.device_id for row in rows}
    known = tx.execute(
        select(device.id, device.key, device.name, schema.host.c.name.label("host"))
        .join(schema.host, schema.host.c.id == device.host_id)
        .where(device.id.in_(ids))
        .order_by(schema.host.c.name, device.name, device.key)
    )
    of_devices = []
    for facts in known:
        own = [row for row in rows if row.device_id == facts.id]
        of_devices.append(
            Share(
                device=facts.key,
                device_name=facts.name,
                host=facts.host,
                counts={JobState(row.state): row.jobs for row in own},
                began_at=min((row.began for row in own if row.began is not None), default=None),
                ended_at=max((row.ended for row in own if row.ended is not None), default=None),
                per_second=rates.get(facts.id),
            )
        )
    return of_devices


def failures(tx: Connection, run: int, most: int = 20) -> list[Failure]:
    """Why jobs of a run were wrong, failed or were skipped; the most frequent first."""
    job, case = schema.job.c, schema.kernel_case.c
    grouped = (
        select(
            *(job.state, job.cause, job.reason),
            *(func.count().label("count"), func.min(job.id).label("job")),
        )
        .where(job.run_id == run, job.state.in_(_BAD))
        .group_by(job.state, job.cause, job.reason)
        .order_by(func.count().desc())
        .limit(_MOST_REASONS)
        .subquery()
    )
    query = (
        select_record(Failure, grouped)
        .select_from(grouped)
        .join(schema.job, job.id == grouped.c.job)
        .join(schema.kernel_case, case.id == job.case_id)
        .order_by(grouped.c.count.desc(), grouped.c.job)
    )
    together: dict[tuple[str, str, str], Failure] = {}
    for failure in fetch(tx, query, Failure):
        key = (failure.state, failure.cause, _without_numbers(failure.reason))
        known = together.get(key)
        together[key] = replace(known, count=known.count + failure.count) if known else failure
    worst = {state: place for place, state in enumerate(_BAD)}
    order = sorted(
        together.values(), key=lambda failure: (worst[JobState(failure.state)], -failure.count)
    )
    return order[:most]


def run_before(tx: Connection, run: int) -> Outline | None:
    """The newest earlier run of the same mode and selection, whatever its bundle."""
    table = schema.run.c
    columns = (table.id, table.label, table.mode, table.selection)
    query = select(*columns).where(table.id <= run).order_by(table.id.desc())
    outlines = fetch(tx, query.limit(_LOOKED_BACK), Outline)
    if not outlines or outlines[0].id != run:
        return None
    return next((outline for outline in outlines[1:] if _is_alike(outline, outlines[0])), None)


def _is_alike(one: Outline, other: Outline) -> bool:
    return one.mode == other.mode and _drop_defaults(one.selection) == _drop_defaults(
        other.selection
    )


def _drop_defaults(selection: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in selection.items() if key not in _OTHERWISE}


def _rates(tx: Connection, run: int, now: float) -> Mapping[int, float]:
    """Jobs that ended per second, lately, by device."""
    job = schema.job.c
    since = now - LATELY_SECONDS
    rows = tx.execute(
        select(job.device_id, func.count().label("jobs"), func.min(job.finished_at).label("first"))
        .where(job.run_id == run, job.finished_at >= since)
        .group_by(job.device_id)
    )
    # over the time since the first of them, and at least some seconds: one job is no rate
    return {row.device_id: row.jobs / max(now - row.first, 2.0) for row in rows}


def _without_numbers(reason: str) -> str:
    return re.sub(r"\d[\d.e+-]*", "#", reason)
