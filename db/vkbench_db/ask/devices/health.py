"""Signs that a device is broken: failures in a row, and canaries that differ from its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, exists, false, func, select, text

from vkbench.job import JobState, Outcome
from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_db.schema.work import UNPASSED_ONLY

BAD = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.DEVICE_LOST, Outcome.WORKER_DIED)
DONE = (JobState.PASSED, JobState.WRONG)  # a kernel ran to its end


@dataclass(frozen=True, kw_only=True)
class ServedDevice:
    """A device that gets jobs."""

    id: int
    key: str
    resumed_at: float | None
    on_trial: bool
    canary_off: bool  # whether the last one is


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """An attempt that ended badly."""

    device_id: int
    case_id: int
    kernel: str
    bundle: str
    outcome: str
    at: float  # when it began


def served_devices(tx: Connection) -> list[ServedDevice]:
    """Devices that are not paused."""
    device, canary = schema.device.c, schema.canary.c
    last = (
        select(canary.is_off)
        .where(canary.device_id == device.id)
        .order_by(canary.measured_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(
        *(device.id, device.key, device.resumed_at, device.on_trial),
        func.coalesce(last, false()).label("canary_off"),
    )
    return fetch(tx, query.where(~device.paused).order_by(device.id), ServedDevice)


def mishaps(tx: Connection, since: float, until: float | None = None) -> list[Mishap]:
    """Attempts that were recorded from one moment to another and ended badly, on all devices."""
    attempt, job, case = schema.attempt.c, schema.job.c, schema.kernel_case.c
    query = (
        select(
            *(job.device_id, job.case_id, case.kernel, attempt.bundle, attempt.outcome),
            attempt.started_at.label("at"),
        )
        .join(schema.job, job.id == attempt.job_id)
        .join(schema.kernel_case, case.id == job.case_id)
        .where(
            text(UNPASSED_ONLY["where"]),  # so that the partial index is used
            attempt.outcome.in_(BAD),
            attempt.recorded_at >= since,
            attempt.started_at.is_not(None),
        )
        .order_by(attempt.started_at)
    )
    if until is not None:
        query = query.where(attempt.recorded_at <= until)
    return fetch(tx, query, Mishap)


def last_done(tx: Connection, device: int) -> float | None:
    """When the last job began that ran to its end on a device; None if there is none."""
    job, attempt = schema.job.c, schema.attempt.c
    last = (
        select(job.id, job.settled_token)
        .where(job.device_id == device, job.finished_at.is_not(None), job.state.in_(DONE))
        .order_by(job.finished_at.desc())
        .limit(1)
        .subquery()
    )
    return tx.execute(
        select(attempt.started_at).join(
            last, (last.c.id == attempt.job_id) & (last.c.settled_token == attempt.token)
        )
    ).scalar()


def has_done(tx: Connection, device: int, case: int) -> bool:
    """Whether a device has run a case to its end before."""
    job = schema.job.c
    done_before = exists().where(job.case_id == case, job.device_id == device, job.state.in_(DONE))
    return bool(tx.execute(select(done_before)).scalar())


def last_canaries(tx: Connection, device: int, count: int) -> Sequence[tuple[float, bool]]:
    """When the last canaries of a device were timed, and whether they are off, latest first.

    They are of the environment of the latest.
    """
    canary = schema.canary.c
    newest = (
        select(canary.environment)
        .where(canary.device_id == device)
        .order_by(canary.measured_at.desc())
        .limit(1)
    )
    rows = tx.execute(
        select(canary.measured_at, canary.is_off)
        .where(canary.device_id == device, canary.environment == newest.scalar_subquery())
        .order_by(canary.measured_at.desc())
        .limit(count)
    )
    return [(row.measured_at, row.is_off) for row in rows]
