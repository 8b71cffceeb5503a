"""Questions that people ask of the database, with the filters that all commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName, UsageError
from vkbench.job import IN_FLIGHT, UNFINISHED, JobState
from vkbench.run import MEASURED, RunKind
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.batches import batches
from vkbench_db.rows import fetch
from vkbench_db.schema import ResultRow as ResultRow
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
class ResultCount:
    """How many results a case has."""

    case_name: str
    shape: str
    mode: str
    results: int


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


def results(
    tx: Connection,
    *,
    run: int | None = None,
    devices: Sequence[str] = (),
    kernel: str = "",
    format: str = "",
    modes: Sequence[str] = (),
    states: Sequence[str] = (),
    series: int | None = None,
    latest: bool = False,
    without: Sequence[int] = (),
    limit: int | None = 50,
) -> list[ResultRow]:
    """Results, newest first; `latest` leaves the newest of each device, case, mode and variant.

    Those of a series are of its metric alone. Runs of `without` count as if they were not there.
    """
    job = schema.job.c
    where = _filters(tx, devices, kernel, format, modes, states)
    if run is not None:
        where.append(job.run_id == run)
    if series is not None:
        of_series = schema.measurement.c.series_id == series
        where.append(job.id.in_(select(schema.measurement.c.job_id).where(of_series)))
    if without:
        where.append(job.run_id.not_in(without))
    if latest:
        where.append(is_newest(without))
    # The jobs first, the rest of their rows afterwards: left to itself, SQLite joins everything
    # before it sorts as soon as it has statistics.
    newest = (job.finished_at.desc(), job.id.desc())
    ids = tx.execute(select(job.id).where(*where).order_by(*newest).limit(limit)).scalars().all()
    rows = results_of(tx, ids)
    return [row for row in rows if series in (None, row.series)][:limit]


def results_of(tx: Connection, jobs: Sequence[int]) -> list[ResultRow]:
    """The results of jobs, in their order."""
    view = schema.v_results.c
    rows: list[ResultRow] = []
    for page in batches(jobs, 1000):
        asked = select(schema.v_results).where(view.job.in_(page)).order_by(view.metric, view.side)
        rows += fetch(tx, asked, ResultRow)
    places = {job: place for place, job in enumerate(jobs)}
    return sorted(rows, key=lambda row: places[row.job])


def result_counts(
    tx: Connection,
    runs: Sequence[int],
    *,
    devices: Sequence[str] = (),
    kernel: str = "",
    format: str = "",
    modes: Sequence[str] = (),
    states: Sequence[str] = (),
) -> list[ResultCount]:
    """How many results of some runs each case has, with the filters of `results`."""
    job, case = schema.job.c, schema.kernel_case.c
    asked = (
        select(case.name.label("case_name"), case.shape, job.mode, func.count().label("results"))
        .join(schema.kernel_case, case.id == job.case_id)
        .where(job.run_id.in_(runs), *_filters(tx, devices, kernel, format, modes, states))
        .group_by(case.name, case.shape, job.mode)
    )
    return fetch(tx, asked, ResultCount)


def _filters(
    tx: Connection,
    devices: Sequence[str],
    kernel: str,
    format: str,
    modes: Sequence[str],
    states: Sequence[str],
) -> list[ColumnElement[bool]]:
    job = schema.job.c
    where: list[ColumnElement[bool]] = [job.finished_at.is_not(None)]
    if devices:
        keys = schema.device.c.key.in_(device_keys(tx, devices))
        where.append(
            job.device_id.in_(tx.execute(select(schema.device.c.id).where(keys)).scalars())
        )
    if kernel or format:
        where.append(job.case_id.in_(_cases(tx, kernel, format)))
    if modes:
        where.append(job.mode.in_(modes))
    if states:
        where.append(job.state.in_(states))
    return where


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
    job, device, case = schema.job.c, schema.device.c, schema.kernel_case.c
    asked = (
        select(
            *(job.id, job.run_id.label("run"), job.position, schema.host.c.name.label("host")),
            *(device.key.label("device"), device.name.label("device_name")),
            *(case.name.label("case_name"), job.mode, job.variant, job.state, job.token),
            *(job.tries, job.cause, job.reason, job.estimate_seconds),
            *(job.dispatched_at, job.finished_at),
        )
        .join(schema.device, device.id == job.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .join(schema.kernel_case, case.id == job.case_id)
    )
    if run is not None:
        asked = asked.where(job.run_id == run)
    if number is not None:
        asked = asked.where(job.id == number)
    if devices:
        asked = asked.where(device.key.in_(device_keys(tx, devices)))
    if states:
        asked = asked.where(job.state.in_(states))
    order = (job.id.desc(),) if run is None else (job.position,)
    return fetch(tx, asked.order_by(*order).limit(limit), JobRow)


def runs(tx: Connection, *, limit: int | None = 20, before: int | None = None) -> list[RunRow]:
    """Runs, newest first; `before` leaves those of smaller numbers."""
    where = [] if before is None else [schema.run.c.id < before]
    return _runs(tx, *where, limit=limit)


def find_run(tx: Connection, asked: str, last: Sequence[RunKind] = MEASURED) -> RunRow:
    """Find a run by `last`, its number, its label or the beginning of its UUID.

    `last` is the newest of these kinds: no confirmation, bisection, calibration, sweep or import.
    """
    run = schema.run.c
    if asked == "last":
        found = _runs(tx, run.kind.in_(last), limit=1)
    elif asked.isdecimal() and int(asked) < 2**31 and (one := _runs(tx, run.id == int(asked))):
        found = one
    else:
        found = _runs(tx, run.label == asked, limit=1)
        if not found and len(asked) >= PREFIX:
            found = _runs(tx, func.substr(run.uuid, 1, len(asked)) == asked.lower(), limit=2)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"'{asked}' begins the UUIDs of several runs: give more of it")
    raise UnknownName("run", asked, _near_runs(tx, asked))


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
            *(environment.driver, environment.driver_version),
        )
        .join(schema.host, schema.host.c.id == device.host_id)
        .outerjoin(schema.environment, environment.hash == device.environment)
        .order_by(schema.host.c.name, device.name, device.key)
    )
    return [
        DeviceRow(
            key=row.key,
            host=row.host,
            name=row.name,
            facts=from_builtins(row.facts, DeviceFacts),
            paused=row.paused,
            paused_reason=row.paused_reason,
            paused_by=row.paused_by,
            paused_at=row.paused_at,
            worker=row.worker,
            bundle=row.bundle,
            driver=row.driver,
            driver_version=row.driver_version,
            last_seen=row.last_seen,
            **_waiting(counts.get(row.id, {})),
        )
        for row in rows
    ]


def is_newest(without: Sequence[int] = ()) -> ColumnElement[bool]:
    """Whether a job is the newest of its device, case, mode and variant, as v_latest says it.

    Jobs of the runs of `without` do not count.
    """
    job, other = schema.job.c, schema.job.alias("newest").c
    return job.id == (
        select(other.id)
        .where(
            *(other.case_id == job.case_id, other.device_id == job.device_id),
            *(other.mode == job.mode, other.variant == job.variant),
            other.finished_at.is_not(None),
            *([other.run_id.not_in(without)] if without else []),
        )
        .order_by(other.finished_at.desc(), other.id.desc())
        .limit(1)
        .correlate(schema.job)
        .scalar_subquery()
    )


def _cases(tx: Connection, kernel: str, format: str) -> Select[int]:
    asked = select(schema.kernel_case.c.id)
    if kernel:
        asked = asked.where(schema.kernel_case.c.kernel.in_(_match_stored(tx, "kernel", kernel)))
    if format:
        asked = asked.where(schema.kernel_case.c.format.in_(_match_stored(tx, "format", format)))
    return asked


def _match_stored(tx: Connection, column: str, pattern: str) -> list[str]:
    known = tx.execute(select(schema.kernel_case.c[column]).distinct()).scalars().all()
    return names.matching(pattern, sorted(known), column)


def _runs(tx: Connection, *where: ColumnElement[bool], limit: int | None = None) -> list[RunRow]:
    run = schema.run.c
    rows = tx.execute(
        select(schema.run).where(*where).order_by(run.created_at.desc(), run.id.desc()).limit(limit)
    ).all()
    counts = _states(tx, [row.id for row in rows])
    return [
        RunRow(
            id=row.id,
            uuid=row.uuid,
            created_at=row.created_at,
            user=row.user_name,
            label=row.label,
            kind=row.kind,
            about=row.about,
            tags=row.tags,
            selection=row.selection,
            mode=row.mode,
            priority=row.priority,
            imported=row.imported_at is not None,
            progress=Progress(
                counts=counts.get(row.id, {}), cancelled=row.cancelled_at is not None
            ),
        )
        for row in rows
    ]


def _states(tx: Connection, wanted: Sequence[int]) -> dict[int, dict[JobState, int]]:
    job = schema.job.c
    rows = tx.execute(
        select(job.run_id, job.state, func.count())
        .where(job.run_id.in_(wanted))
        .group_by(job.run_id, job.state)
    )
    counts: dict[int, dict[JobState, int]] = {}
    for run, state, count in rows:
        counts.setdefault(run, {})[JobState(state)] = count
    return counts


def _near_runs(tx: Connection, asked: str) -> tuple[str, ...]:
    run = schema.run.c
    rows = tx.execute(select(run.label, run.uuid).order_by(run.id.desc()).limit(500)).all()
    return names.nearest(asked, [row.label or row.uuid for row in rows])


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
