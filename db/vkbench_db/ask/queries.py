"""Questions that people ask of the database, with the filters that all commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName, UsageError
from vkbench.job import IN_FLIGHT, UNFINISHED, JobState
from vkbench.run import MEASURED, RunKind
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.rows import fetch, record_of, select_record
from vkbench_db.work.progress import Progress

PREFIX = 4  # digits of a hash or UUID that are enough to name it


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job, finished or not."""

    id: int
    run: int
    position: int
    host: str
    device: str  # key
    device_name: str
    case_name: str
    mode: str
    variant: str
    state: str
    token: int
    tries: int
    cause: str
    reason: str
    estimate_seconds: float
    dispatched_at: float | None
    finished_at: float | None


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run and its progress."""

    id: int
    uuid: str
    created_at: float
    user: str
    label: str
    kind: str
    about: Mapping[str, Any]  # what its kind keeps, see vkbench.run.RunKind
    tags: Mapping[str, Any]
    selection: Mapping[str, Any]
    mode: str
    priority: int
    imported: bool
    progress: Progress


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """A device, and how many jobs wait for it."""

    key: str
    host: str
    name: str
    facts: DeviceFacts
    paused: bool
    paused_reason: str
    paused_by: str
    paused_at: float | None
    worker: str
    bundle: str
    driver: str | None  # None for a device known by imports alone
    driver_version: str | None
    last_seen: float | None
    queued: int
    in_flight: int
    elsewhere: int  # jobs that imported runs have left: not ours to run
    drivers: Sequence[str]  # names of those that were added on its host
    driver_copies: Sequence[str]  # names of the copies of drivers that its host ran on
    no_copy: str  # why the one that it runs on is not among them


def jobs(
    tx: Connection,
    *,
    run: int | None = None,
    devices: Sequence[str] = (),
    states: Sequence[str] = (),
    number: int | None = None,
    limit: int | None = 50,
) -> list[JobRow]:
    """The jobs of a run in their order, or the newest jobs of all runs; `number` names one."""
    job, device = schema.job.c, schema.device.c
    query = select_record(JobRow, schema.job, run=job.run_id).select_from(schema.named_jobs)
    if run is not None:
        query = query.where(job.run_id == run)
    if number is not None:
        query = query.where(job.id == number)
    if devices:
        query = query.where(device.key.in_(device_keys(tx, devices)))
    if states:
        query = query.where(job.state.in_(states))
    order = (job.id.desc(),) if run is None else (job.position,)
    return fetch(tx, query.order_by(*order).limit(limit), JobRow)


def runs(tx: Connection, *, limit: int | None = 20, before: int | None = None) -> list[RunRow]:
    """Runs, newest first; `before` leaves those of smaller numbers."""
    where = [] if before is None else [schema.run.c.id < before]
    return _runs(tx, *where, limit=limit)


def find_run(tx: Connection, name: str, last: Sequence[RunKind] = MEASURED) -> RunRow:
    """Find a run by `last`, its number, its label or the beginning of its UUID.

    `last` is the newest of these kinds: no confirmation, bisection, calibration, sweep or import.
    """
    run = schema.run.c
    if name == "last":
        runs_of_name = _runs(tx, run.kind.in_(last), limit=1)
    elif name.isdecimal() and int(name) < 2**31 and (one := _runs(tx, run.id == int(name))):
        runs_of_name = one
    else:
        runs_of_name = _runs(tx, run.label == name, limit=1)
        if not runs_of_name and len(name) >= PREFIX:
            runs_of_name = _runs(tx, func.substr(run.uuid, 1, len(name)) == name.lower(), limit=2)
    if len(runs_of_name) == 1:
        return runs_of_name[0]
    if runs_of_name:
        raise UsageError(f"'{name}' begins the UUIDs of several runs: give more of it")
    raise UnknownName("run", name, _near_runs(tx, name))


def devices(tx: Connection) -> list[DeviceRow]:
    """All devices that ever announced themselves or came with an import."""
    from vkbench.messages.wire import from_builtins  # msgspec, which no other query needs

    device, environment = schema.device.c, schema.environment.c
    counts = _count_unfinished(tx)
    rows = tx.execute(
        select(
            *(device.id, device.key, schema.host.c.name.label("host"), device.name, device.facts),
            *(device.paused, device.paused_reason, device.paused_by, device.paused_at),
            *(device.worker, device.bundle, device.last_seen),
            *(device.drivers, device.own_drivers),
            *(environment.driver, environment.driver_version),
        )
        .join(schema.host, schema.host.c.id == device.host_id)
        .outerjoin(schema.environment, environment.hash == device.environment)
        .order_by(schema.host.c.name, device.name, device.key)
    )
    return [
        record_of(
            {
                **row,
                "facts": from_builtins(row["facts"], DeviceFacts),
                **_waiting(counts.get(row["id"], {})),
                **_name_drivers(row["drivers"] or (), row["own_drivers"] or {}),
            },
            DeviceRow,
        )
        for row in rows.mappings()
    ]


def _name_drivers(added: Sequence[Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker says of its host's drivers, as the columns of a device."""
    return {
        "drivers": [driver["name"] for driver in added],
        "driver_copies": [copy["name"] for copy in own.get("copies", ())],
        "no_copy": own.get("reason", ""),
    }


def _runs(tx: Connection, *where: ColumnElement[bool], limit: int | None = None) -> list[RunRow]:
    run = schema.run.c
    query = select(schema.run).where(*where).order_by(run.created_at.desc(), run.id.desc())
    rows = tx.execute(query.limit(limit)).mappings().all()
    counts = _states(tx, [row["id"] for row in rows])
    return [
        record_of(
            {
                **row,
                "user": row["user_name"],
                "imported": row["imported_at"] is not None,
                "progress": Progress(
                    counts=counts.get(row["id"], {}), cancelled=row["cancelled_at"] is not None
                ),
            },
            RunRow,
        )
        for row in rows
    ]


def _states(tx: Connection, ids: Sequence[int]) -> dict[int, dict[JobState, int]]:
    job = schema.job.c
    rows = tx.execute(
        select(job.run_id, job.state, func.count())
        .where(job.run_id.in_(ids))
        .group_by(job.run_id, job.state)
    )
    counts: dict[int, dict[JobState, int]] = {}
    for run, state, count in rows:
        counts.setdefault(run, {})[JobState(state)] = count
    return counts


def _near_runs(tx: Connection, name: str) -> tuple[str, ...]:
    run = schema.run.c
    rows = tx.execute(select(run.label, run.uuid).order_by(run.id.desc()).limit(500)).all()
    return names.nearest(name, [row.label or row.uuid for row in rows])


def _count_unfinished(tx: Connection) -> dict[int, dict[str, int]]:
    job = schema.job.c
    ids = tx.execute(select(schema.device.c.id)).scalars().all()
    rows = tx.execute(
        select(job.device_id, job.state, func.count())
        .where(job.device_id.in_(ids), job.state.in_(UNFINISHED))
        .group_by(job.device_id, job.state)
    )
    counts: dict[int, dict[str, int]] = {}
    for device, state, count in rows:
        counts.setdefault(device, {})[state] = count
    return counts


def _waiting(counts: Mapping[str, int]) -> dict[str, int]:
    return {
        "queued": counts.get(JobState.QUEUED, 0),
        "in_flight": sum(counts.get(state, 0) for state in IN_FLIGHT),
        "elsewhere": counts.get(JobState.ELSEWHERE, 0),
    }
