"""Calibrations: what devices reach, from finished runs of the calibration suite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import log
from typing import Any

from sqlalchemy import Connection, select

from vkbench.calibration import SUITE, TICK, canary_of
from vkbench.job import UNFINISHED, JobState, Mode
from vkbench_db import schema
from vkbench_db.rows import fetch, insert_missing, record_of, select_record

LAUNCH = "launch/u32/n1"  # timed in every calibration, and hardly anywhere else
LEAST_REPEATED = 5  # canaries whose scatter says something


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
    table, device, environment = schema.calibration.c, schema.device.c, schema.environment.c
    where = [] if run is None else [table.run_id == run]
    if devices:
        where.append(device.key.in_(devices))
    own = [schema.calibration.c[name] for name in _MEASURED]
    rows = tx.execute(
        select(
            *(device.key.label("device"), device.name.label("device_name")),
            *(schema.host.c.name.label("host"), table.environment),
            *(environment.driver, environment.driver_version),
            *(table.measured_at, table.run_id.label("run"), *own, device.facts),
        )
        .join(schema.device, device.id == table.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .outerjoin(schema.environment, environment.hash == table.environment)
        .where(*where)
        .order_by(schema.host.c.name, device.name, device.key, table.measured_at, table.id)
    )
    by_device = {
        (row["device"], row["environment"]): record_of(
            {**row, "llc_bytes": row["facts"].get("llc_bytes", 0)}, Reached
        )
        for row in rows.mappings()
    }
    return list(by_device.values())


def settle(tx: Connection, now: float) -> int:
    """Store calibrations of runs that ended; return how many. Repeating it stores none."""
    made = [
        row
        for run, device, kind in _find_ended_runs(tx)
        if (row := _calibration(tx, run, device, kind))
    ]
    insert_missing(tx, schema.calibration, made)
    return len(made)


def _find_ended_runs(tx: Connection) -> list[tuple[int, int, str]]:
    """Runs of the suite and their devices without a calibration, that have nothing left to do."""
    job, done, case = schema.job.c, schema.calibration.c, schema.kernel_case.c
    candidates = tx.execute(
        select(job.run_id, job.device_id, schema.run.c.selection, schema.device.c.facts)
        .join(schema.kernel_case, case.id == job.case_id)
        .join(schema.run, schema.run.c.id == job.run_id)
        .join(schema.device, schema.device.c.id == job.device_id)
        .outerjoin(
            schema.calibration, (done.run_id == job.run_id) & (done.device_id == job.device_id)
        )
        .where(
            case.name == LAUNCH,
            job.finished_at.is_not(None),  # as an index has it
            job.mode == Mode.PERFORMANCE,
            job.state == JobState.PASSED,
            done.id.is_(None),
        )
    )
    runs = {
        (row.run_id, row.device_id, row.facts.get("type", ""))
        for row in candidates
        if row.selection.get("suite") == SUITE
    }
    return [run for run in sorted(runs) if not _is_unfinished(tx, run[0], run[1])]


def _is_unfinished(tx: Connection, run: int, device: int) -> bool:
    job = schema.job.c
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
    same = [row for row in timings if row.environment == last.environment]
    rates = _rates(same)
    return {
        "device_id": device,
        "environment": last.environment,
        "measured_at": last.finished_at,
        "run_id": run,
        **name_rates(rates),
        "launch_seconds": _launch(same),
        "tick_seconds": _tick(same),
        "noise": _noise(same, canary_of(kind)),
    }


def name_rates(rates: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    """The rates of a calibration by the names that `Roofs` has for them."""
    return {
        "read_bytes": rates.get(("read_bandwidth", "portable")),
        "copy_bytes": rates.get(("copy", "portable")),
        "fma_f32": rates.get(("fma", "portable")),
        "fma_f16": rates.get(("fma", "pairs")),
        "dot_i8": rates.get(("dot_i8", "int_dot")),
        "matrices": {name: rate for (of, name), rate in rates.items() if of == "matrix_rate"},
    }


@dataclass(frozen=True, kw_only=True)
class _Timed:
    """A timing of the suite, and what made it."""

    name: str  # of the case
    kernel: str
    variant: str
    metric: str
    seconds: float
    bytes_moved: int
    flops: int
    environment: str
    telemetry: Mapping[str, float]
    finished_at: float


def _timings(tx: Connection, run: int, device: int) -> list[_Timed]:
    job, timing = schema.job.c, schema.measurement.c
    query = (
        select_record(_Timed, schema.kernel_case, schema.measurement, schema.attempt, schema.job)
        .join(schema.measurement, timing.job_id == job.id)
        .join(schema.attempt, schema.is_settling)
        .join(schema.kernel_case, schema.kernel_case.c.id == job.case_id)
        .where(
            job.run_id == run,
            job.device_id == device,
            job.mode == Mode.PERFORMANCE,
            job.state == JobState.PASSED,
            timing.seconds > 0,
        )
    )
    return fetch(tx, query, _Timed)


def _rates(timings: Iterable[_Timed]) -> Mapping[tuple[str, str], float]:
    """The best rate by kernel and code path: operations hot, bytes cold, so that no cache helps."""
    rates: dict[tuple[str, str], float] = defaultdict(float)
    for row in timings:
        amount = row.flops if row.metric == "hot" else 0 if row.flops else row.bytes_moved
        if amount:
            key = (row.kernel, row.variant)
            rates[key] = max(rates[key], amount / row.seconds)
    return rates


def _launch(timings: Iterable[_Timed]) -> float | None:
    seconds = (row.seconds for row in timings if (row.name, row.metric) == (LAUNCH, "hot"))
    return min(seconds, default=None)


def _tick(timings: Iterable[_Timed]) -> float | None:
    ticks = (row.telemetry[TICK] * 1e-9 for row in timings if TICK in row.telemetry)
    return next(ticks, None)


def _noise(timings: Iterable[_Timed], canary: str) -> float | None:
    """The relative scatter of the canary's timings: a robust sigma of their logarithms."""
    logs = [log(row.seconds) for row in timings if (row.name, row.metric) == (canary, "hot")]
    if len(logs) < LEAST_REPEATED:
        return None
    import numpy as np

    from vkbench_detection.statistics.noise import scatter

    return scatter(np.asarray(logs))
