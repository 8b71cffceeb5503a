"""Sweeps of configurations, and the fastest ones that they found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from vkbench.result import HOT
from vkbench.run import RunKind
from vkbench_db import schema
from vkbench_db.ask.timings import is_our_time
from vkbench_db.rows import fetch, insert_missing, select_record
from vkbench_db.work.runs import run_progress

# What is kept about a sweep: how much it tries, and the cases of which it keeps no finding, since
# `auto` never takes what was swept.
SWEEP, UNKEPT = "sweep", "unkept"
EVERY = "*"  # among them: all


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A job of a sweep: one configuration, timed once."""

    device_id: int
    device: str  # key
    device_name: str
    case_id: int
    case: str
    configuration: str
    position: int  # in the run: the first configuration of a case is the estimated one
    state: str
    reason: str
    environment: str  # hash; "" where nothing ran
    seconds: float | None  # hot; None where nothing was timed
    low: float | None  # the interval of the median
    high: float | None
    finished_at: float | None
    bundle: str = ""  # SHA-256 of the kernels that ran; "" where nothing ran


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a sweep found for a case on a device, as it is stored."""

    run_id: int
    device_id: int
    case_id: int
    driver: str
    driver_version: str
    configuration: str
    seconds: float
    estimated: str
    estimated_seconds: float
    measured_at: float


@dataclass(frozen=True, kw_only=True)
class TunedRow:
    """The newest finding for a case, on a device with a driver."""

    run: int
    host: str
    device: str  # key
    device_name: str
    driver: str
    driver_version: str
    case: str
    configuration: str
    seconds: float
    estimated: str
    estimated_seconds: float
    measured_at: float


def trials(tx: Connection, run: int) -> list[Trial]:
    """The jobs of a sweep, in their order."""
    job, device, case = schema.job.c, schema.device.c, schema.kernel_case.c
    attempt = schema.attempt.c
    query = (
        select_record(
            Trial,
            *(schema.job, schema.measurement),
            case=case.name,
            configuration=job.variant,
            environment=func.coalesce(attempt.environment, ""),
            bundle=func.coalesce(attempt.bundle, ""),
        )
        .join(schema.device, device.id == job.device_id)
        .join(schema.kernel_case, case.id == job.case_id)
        .outerjoin(schema.attempt, schema.is_settling)
        .outerjoin(schema.measurement, is_our_time(job.id, HOT))
        .where(job.run_id == run)
        .order_by(job.position)
    )
    return fetch(tx, query, Trial)


def sweeps(tx: Connection) -> list[int]:
    """Numbers of the runs that are sweeps."""
    return list(
        tx.execute(select(schema.run.c.id).where(schema.run.c.kind == RunKind.SWEEP)).scalars()
    )


def unsettled_sweeps(tx: Connection) -> list[int]:
    """Sweeps that have ended and have no findings yet: of those that found nothing, all.

    Those of which nothing is kept are left out.
    """
    run, known = schema.run.c, select(schema.tuned.c.run_id)
    query = select(run.id, run.about).where(
        run.kind == RunKind.SWEEP, run.cancelled_at.is_(None), run.id.not_in(known)
    )
    return [
        row.id
        for row in tx.execute(query)
        if keeps(row.about, EVERY) and run_progress(tx, row.id).is_finished
    ]


def keeps(about: Mapping[str, Any], case: str) -> bool:
    """Whether a sweep is to find what `auto` takes for a case."""
    named = about.get(UNKEPT)
    return not isinstance(named, list) or (case not in named and EVERY not in named)


def kept_trials(tx: Connection, run: int) -> list[Trial]:
    """The jobs of a sweep whose cases have findings, in their order."""
    about = tx.execute(select(schema.run.c.about).where(schema.run.c.id == run)).scalar_one()
    return [trial for trial in trials(tx, run) if keeps(about, trial.case)]


def drivers(tx: Connection, environments: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The driver of each environment, and its version."""
    environment = schema.environment.c
    rows = tx.execute(
        select(environment.hash, environment.driver, environment.driver_version).where(
            environment.hash.in_(environments)
        )
    )
    return {row.hash: (row.driver, row.driver_version) for row in rows}


def store(tx: Connection, findings: Sequence[Found]) -> None:
    """Store findings; those that are stored already stay as they are."""
    insert_missing(tx, schema.tuned, [asdict(finding) for finding in findings])


def newest_findings(tx: Connection, devices: Sequence[str] = ()) -> list[TunedRow]:
    """The newest finding for each case, device and driver."""
    query = _select_tables()
    if devices:
        query = query.where(schema.device.c.key.in_(devices))
    rows = fetch(tx, query, TunedRow)
    newest = {(row.device, row.driver, row.driver_version, row.case): row for row in rows}
    return list(newest.values())


def tuned_now(tx: Connection, devices: Collection[str]) -> list[TunedRow]:
    """The newest findings for devices, with the driver that each has now; a device's together."""
    environment = schema.environment.c
    query = (
        _select_tables()
        .join(schema.environment, environment.hash == schema.device.c.environment)
        .where(
            schema.device.c.key.in_(devices),
            environment.driver == schema.tuned.c.driver,
            environment.driver_version == schema.tuned.c.driver_version,
        )
    )
    rows = fetch(tx, query, TunedRow)
    return list({(row.device, row.case): row for row in rows}.values())


def _select_tables() -> Select[*tuple[object, ...]]:
    table, device, case = schema.tuned.c, schema.device.c, schema.kernel_case.c
    return (
        select_record(TunedRow, schema.tuned, run=table.run_id, case=case.name)
        .join(schema.device, device.id == table.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .join(schema.kernel_case, case.id == table.case_id)
        .order_by(schema.host.c.name, device.name, device.key, table.measured_at, table.id)
    )
