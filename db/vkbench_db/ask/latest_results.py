"""What the latest results say of kernels and formats: how they ended, and how near the roof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from vkbench.job import JobState, Mode
from vkbench_db import schema
from vkbench_db.ask.timings import is_our_time
from vkbench_db.rows import fetch, select_record
from vkbench_db.work.latest import is_ours


@dataclass(frozen=True, kw_only=True)
class StateCount:
    """How many of the latest results of a kernel and format ended so."""

    kernel: str
    format: str
    state: str
    results: int


@dataclass(frozen=True, kw_only=True)
class RoofShare:
    """The share of the roof that a latest timing reached."""

    kernel: str
    format: str
    case_name: str
    fraction: float
    bytes_moved: int = 0


def states(
    tx: Connection, device: str, *, modes: Sequence[str] = (), program: str = ""
) -> list[StateCount]:
    """The latest results of our kernels, or of a program, on a device by kernel, format, state."""
    latest, case = schema.latest.c, schema.kernel_case.c
    query = (
        select_record(StateCount, schema.latest, results=func.count())
        .join(schema.kernel_case, case.id == latest.case_id)
        .where(
            latest.device_id == _device(device),
            latest.mode.in_(modes or (Mode.CORRECTNESS, Mode.PERFORMANCE)),
            is_ours(program),
        )
        .group_by(case.kernel, case.format, latest.state)
    )
    return fetch(tx, query, StateCount)


def roof_shares(tx: Connection, device: str, metric: str, *, program: str = "") -> list[RoofShare]:
    """The shares of the roof of a device's latest timings."""
    latest, case, timing = schema.latest.c, schema.kernel_case.c, schema.measurement.c
    query = (
        select_record(RoofShare, fraction=timing.roof_fraction, bytes_moved=timing.bytes_moved)
        .select_from(schema.latest)
        .join(schema.kernel_case, case.id == latest.case_id)
        .join(schema.measurement, is_our_time(latest.job_id, metric))
        .where(
            latest.device_id == _device(device),
            latest.mode == Mode.PERFORMANCE,
            latest.state == JobState.PASSED,
            timing.roof_fraction.is_not(None),
            is_ours(program),
        )
    )
    return fetch(tx, query, RoofShare)


def last_seen_device(tx: Connection) -> str:
    """The key of the device that has the newest result; "" without results."""
    latest, device = schema.latest.c, schema.device.c
    newest = (
        select(device.key)
        .join(schema.latest, latest.device_id == device.id)
        .order_by(latest.finished_at.desc(), latest.job_id.desc())
        .limit(1)
    )
    first = select(device.key).order_by(device.id).limit(1)
    return str(tx.execute(newest).scalar() or tx.execute(first).scalar() or "")


def _device(key: str) -> object:
    return select(schema.device.c.id).where(schema.device.c.key == key).scalar_subquery()


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """How many of the latest results of a kernel on a device ended so."""

    kernel: str
    device: str  # key
    state: str
    results: int


def kernel_states(tx: Connection, kernel: str = "") -> list[KernelState]:
    """The latest results of one kernel, or of all, by kernel, device and state."""
    latest, case, device = schema.latest.c, schema.kernel_case.c, schema.device.c
    query = (
        select_record(KernelState, schema.latest, results=func.count())
        .select_from(schema.latest)
        .join(schema.kernel_case, case.id == latest.case_id)
        .join(schema.device, device.id == latest.device_id)
        .where(latest.mode.in_((Mode.CORRECTNESS, Mode.PERFORMANCE)), is_ours())
        .group_by(case.kernel, device.key, latest.state)
    )
    return fetch(tx, query.where(case.kernel == kernel) if kernel else query, KernelState)


@dataclass(frozen=True, kw_only=True)
class RooflinePoint:
    """A latest timing that passed."""

    device: str  # key
    kernel: str
    format: str
    case_name: str
    variant: str  # code path that ran
    seconds: float
    bytes_moved: int
    flops: int
    roof_fraction: float | None
    path_fraction: float | None
    series: int | None
    job: int


def roofline_points(
    tx: Connection, *, device: str = "", kernel: str = "", metric: str = "hot"
) -> list[RooflinePoint]:
    """The latest timings of a device, or of a kernel on all devices, by case and variant."""
    latest, case, timing = schema.latest.c, schema.kernel_case.c, schema.measurement.c
    attempt = schema.attempt.c
    where = [case.kernel == kernel] if kernel else []
    if device:
        key = schema.device.c.key == device
        where.append(latest.device_id.in_(select(schema.device.c.id).where(key)))
    query = (
        select_record(
            RooflinePoint,
            *(schema.measurement, schema.attempt),
            series=timing.series_id,
            job=latest.job_id,
        )
        .select_from(schema.latest)
        .join(schema.kernel_case, case.id == latest.case_id)
        .join(schema.device, schema.device.c.id == latest.device_id)
        .join(schema.measurement, is_our_time(latest.job_id, metric))
        .join(schema.attempt, (attempt.job_id == timing.job_id) & (attempt.token == timing.token))
        .where(
            *where,
            latest.mode == Mode.PERFORMANCE,
            latest.state == JobState.PASSED,
            timing.seconds > 0,
        )
        .order_by(case.name, attempt.variant, latest.job_id)
    )
    return fetch(tx, query, RooflinePoint)
