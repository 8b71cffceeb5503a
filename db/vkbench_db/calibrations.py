"""Finished runs of the calibration suite become what their devices reach, a row a device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import log
from typing import Any

from sqlalchemy import Connection, Row, select

from vkbench.calibration import SUITE, TICK, canary_of
from vkbench.job import UNFINISHED, Mode, State
from vkbench_db import models
from vkbench_db.rows import insert_missing

LAUNCH = "launch/u32/n1"  # timed in every calibration, and hardly anywhere else
LEAST_REPEATED = 5  # canaries whose scatter says something

AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What a device reached in an environment; None where it has no such thing."""

    device: str  # key
    device_name: str
    host: str
    environment: str
    driver: str | None  # None before the environment was announced
    driver_version: str | None
    llc_bytes: int  # last-level cache, 0 where unknown
    measured_at: float
    run: int
    read_bytes: float | None  # a second, as are all rates
    copy_bytes: float | None
    fma_f32: float | None
    fma_f16: float | None
    dot_i8: float | None
    matrices: Mapping[str, float]
    launch_seconds: float | None
    tick_seconds: float | None
    noise: float | None  # relative


_MEASURED = [field.name for field in fields(Reached)][9:]  # columns of the table


def latest(tx: Connection, *, run: int | None = None, devices: Sequence[str] = ()) -> list[Reached]:
    """The last calibration of each device and environment, or those of one run."""
    table, device, environment = models.Calibration, models.Device, models.Environment
    where = [] if run is None else [table.run_id == run]
    if devices:
        where.append(device.key.in_(devices))
    own = [getattr(table, name) for name in _MEASURED]
    rows = tx.execute(
        select(
            *(device.key.label("device"), device.name.label("device_name")),
            *(models.Host.name.label("host"), table.environment),
            *(environment.driver, environment.driver_version),
            *(table.measured_at, table.run_id.label("run"), *own, device.facts),
        )
        .join(device, device.id == table.device_id)
        .join(models.Host, models.Host.id == device.host_id)
        .outerjoin(environment, environment.hash == table.environment)
        .where(*where)
        .order_by(models.Host.name, device.name, device.key, table.measured_at, table.id)
    )
    return list({(row.device, row.environment): _reached(row) for row in rows}.values())


def _reached(row: AnyRow) -> Reached:
    values = dict(row._mapping)
    facts = values.pop("facts")
    return Reached(**values, llc_bytes=facts.get("llc_bytes", 0))


def settle(tx: Connection, now: float) -> int:
    """Make calibrations of runs that ended; says how many. Doing it again makes none."""
    made = [row for run, device, kind in _ended(tx) if (row := _calibration(tx, run, device, kind))]
    insert_missing(tx, models.Calibration, made)
    return len(made)


def _ended(tx: Connection) -> list[tuple[int, int, str]]:
    """Runs of the suite and their devices without a calibration, that have nothing left to do."""
    job, done, case = models.Job, models.Calibration, models.KernelCase
    candidates = tx.execute(
        select(job.run_id, job.device_id, models.Run.selection, models.Device.facts)
        .join(case, case.id == job.case_id)
        .join(models.Run, models.Run.id == job.run_id)
        .join(models.Device, models.Device.id == job.device_id)
        .outerjoin(done, (done.run_id == job.run_id) & (done.device_id == job.device_id))
        .where(
            case.name == LAUNCH,
            job.finished_at.is_not(None),  # as an index has it
            job.mode == Mode.PERFORMANCE,
            job.state == State.PASSED,
            done.id.is_(None),
        )
    )
    found = {
        (row.run_id, row.device_id, row.facts.get("type", ""))
        for row in candidates
        if row.selection.get("suite") == SUITE
    }
    return [each for each in sorted(found) if not _is_unfinished(tx, each[0], each[1])]


def _is_unfinished(tx: Connection, run: int, device: int) -> bool:
    job = models.Job
    waiting = select(job.id).where(
        job.run_id == run, job.device_id == device, job.state.in_(UNFINISHED)
    )
    return tx.execute(waiting.limit(1)).first() is not None


def _calibration(tx: Connection, run: int, device: int, kind: str) -> dict[str, Any] | None:
    """The row of a run on a device; of its last environment, should a driver change meanwhile."""
    timings = _timings(tx, run, device)
    if not timings:
        return None
    last = max(timings, key=lambda row: row.finished_at)
    ours = [row for row in timings if row.environment == last.environment]
    rates = _rates(ours)
    return {
        "device_id": device,
        "environment": last.environment,
        "measured_at": last.finished_at,
        "run_id": run,
        "read_bytes": rates.get(("read_bandwidth", "portable")),
        "copy_bytes": rates.get(("copy", "portable")),
        "fma_f32": rates.get(("fma", "portable")),
        "fma_f16": rates.get(("fma", "pairs")),
        "dot_i8": rates.get(("dot_i8", "int_dot")),
        "matrices": {name: rate for (of, name), rate in rates.items() if of == "matrix_rate"},
        "launch_seconds": _launch(ours),
        "tick_seconds": _tick(ours),
        "noise": _noise(ours, canary_of(kind)),
    }


def _timings(tx: Connection, run: int, device: int) -> Sequence[AnyRow]:
    job, timing, attempt = models.Job, models.Measurement, models.Attempt
    return tx.execute(
        select(
            *(models.KernelCase.name, models.KernelCase.kernel, attempt.variant),
            *(timing.metric, timing.seconds, timing.bytes_moved, timing.flops),
            *(attempt.environment, attempt.telemetry, job.finished_at),
        )
        .join(timing, timing.job_id == job.id)
        .join(attempt, (attempt.job_id == job.id) & (attempt.token == job.settled_token))
        .join(models.KernelCase, models.KernelCase.id == job.case_id)
        .where(
            job.run_id == run,
            job.device_id == device,
            job.mode == Mode.PERFORMANCE,
            job.state == State.PASSED,
            timing.seconds > 0,
        )
    ).all()


def _rates(timings: Iterable[AnyRow]) -> Mapping[tuple[str, str], float]:
    """The best rate by kernel and code path: operations hot, bytes cold, so that no cache helps."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row in timings:
        amount = row.flops if row.metric == "hot" else 0 if row.flops else row.bytes_moved
        if amount:
            key = (row.kernel, row.variant)
            found[key] = max(found[key], amount / row.seconds)
    return found


def _launch(timings: Iterable[AnyRow]) -> float | None:
    found = (row.seconds for row in timings if (row.name, row.metric) == (LAUNCH, "hot"))
    return min(found, default=None)


def _tick(timings: Iterable[AnyRow]) -> float | None:
    ticks = (row.telemetry[TICK] * 1e-9 for row in timings if TICK in row.telemetry)
    return next(ticks, None)


def _noise(timings: Iterable[AnyRow], canary: str) -> float | None:
    """How far results of one thing are apart, relative: robust sigma of their logarithms."""
    found = [log(row.seconds) for row in timings if (row.name, row.metric) == (canary, "hot")]
    if len(found) < LEAST_REPEATED:
        return None
    import numpy as np

    from vkbench_db.statistics.noise import scatter

    return scatter(np.asarray(found))
