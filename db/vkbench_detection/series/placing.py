"""Place new results in their series; repeating it changes nothing.

A job that was settled or failed leaves a row in `fresh`. Here it goes: the timings of a passed job
of a run with a track get their series, and `verdict_changes` looks at wrong and failed ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from vkbench.configuration import variant_of
from vkbench.job import PEERS, JobState, Mode
from vkbench.result import BOUNDS_CHECKED, NOT_COLD, THROTTLED
from vkbench_db import schema
from vkbench_db.ask.devices.environments import read_facts
from vkbench_db.ask.devices.health import DONE
from vkbench_db.database import watch_alone
from vkbench_db.rows import fetch, select_record
from vkbench_detection.find.failures import decided_by
from vkbench_detection.find.verdict_changes import record_failed_jobs, record_wrong_jobs
from vkbench_detection.series import canaries, roofs
from vkbench_detection.series.impossible import SUSPECT, is_impossible
from vkbench_detection.series.points import CHECKED, Identity, series_ids

SCREENED = (Mode.PERFORMANCE, Mode.SHARDED, Mode.COMPILE)  # modes whose timings may be suspected
BATCH = 500  # jobs of a transaction: the collector waits for it on SQLite, up to half a second
SCAN_SECONDS = 86_400.0  # after a new result its series' history waits so long for others
PATIENCE_SECONDS = 60.0  # for the announcement of the environment that a result names
NO_TIME = "no time"  # flag of a timing of zero seconds


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What a batch of results placed in series."""

    jobs: int = 0  # taken off the fresh ones, whether they count or not
    series: frozenset[int] = frozenset()  # that have new results
    suspects: tuple[int, ...] = ()  # jobs that were faster than their device can be
    changes: tuple[int, ...] = ()  # change points: results that became wrong, cases that fail


@dataclass(frozen=True, kw_only=True)
class _FreshJob:
    """A settled job, with what the attempt that settled it says of itself."""

    id: int
    device_id: int
    case_id: int
    mode: str
    state: str
    finished_at: float
    track: str
    variant: str
    environment: str
    telemetry: Mapping[str, float] | None


@dataclass(frozen=True, kw_only=True)
class _Timing:
    """A timing, with what its place beneath the roof depends on."""

    job_id: int
    metric: str
    side: str
    seconds: float
    warnings: Sequence[str]
    bytes_moved: int
    flops: int
    path: str | None  # arithmetic whose limits applied; None without a verdict
    kernel: str
    format: str
    types: str


def is_fresh(tx: Connection) -> bool:
    """Whether a settled job waits to be placed."""
    return tx.execute(select(schema.fresh.c.job_id).limit(1)).first() is not None


def place(tx: Connection, now: float, limit: int = BATCH) -> Placed:
    """Place the first of the fresh jobs; no jobs placed means that none is left."""
    watch_alone(tx)
    known, rows = _read_fresh_jobs(tx, now, limit)
    failed = _find_failed_jobs(tx, limit)
    readings = {row.id: canary for row in rows if (canary := _canary(row))}
    noted = canaries.note(tx, readings.values())
    off = {job for job, canary in readings.items() if canary.key in noted}
    tracked = [row for row in rows if row.track]
    passed = [row for row in tracked if row.state == JobState.PASSED]
    timed = [row for row in passed if row.mode in SCREENED and row.track != PEERS]
    touched, suspects = _place(tx, timed, known, off)
    # series of peers are kept, and never suspected
    kept = [row for row in passed if row.mode == Mode.PEER or row.track == PEERS]
    _place(tx, kept, known, off)
    own = [row.id for row in tracked if row.mode != Mode.PEER]
    wrong = record_wrong_jobs(tx, own, now)
    failing = record_failed_jobs(
        tx, [*dict.fromkeys((*failed, *_find_decided_jobs(tx, rows)))], now
    )
    done = [*(row.id for row in rows), *failed]
    tx.execute(delete(schema.fresh).where(schema.fresh.c.job_id.in_(done)))
    _note_scan(tx, touched, now)
    return Placed(
        jobs=len(done),
        series=frozenset(touched),
        suspects=tuple(sorted(suspects)),
        changes=(*wrong, *failing),
    )


def _read_fresh_jobs(
    tx: Connection, now: float, limit: int
) -> tuple[dict[str, str], list[_FreshJob]]:
    """Fresh jobs by number, without those whose environment may still be announced."""
    job, attempt, fresh = schema.job.c, schema.attempt.c, schema.fresh.c
    query = (
        select_record(
            _FreshJob,
            *(schema.job, schema.run, schema.attempt),
            variant=func.coalesce(attempt.variant, ""),
            environment=func.coalesce(attempt.environment, ""),
        )
        .join(schema.fresh, fresh.job_id == job.id)
        .join(schema.run, schema.run.c.id == job.run_id)
        .outerjoin(schema.attempt, schema.is_settling)
        .where(job.state != JobState.FAILED)
        .order_by(fresh.job_id)
        .limit(limit)
    )
    rows = fetch(tx, query, _FreshJob)
    known = _clock_policies(tx, {row.environment for row in rows if row.environment})
    ready = [
        row
        for row in rows
        if not row.environment
        or row.environment in known
        or now - row.finished_at > PATIENCE_SECONDS
    ]
    return known, ready


def _find_failed_jobs(tx: Connection, limit: int) -> list[int]:
    """Fresh jobs that failed."""
    job = schema.job.c
    query = (
        select(job.id)
        .join(schema.fresh, schema.fresh.c.job_id == job.id)
        .where(job.state == JobState.FAILED)
    )
    return list(tx.execute(query.order_by(job.id).limit(limit)).scalars())


def _find_decided_jobs(tx: Connection, rows: Iterable[_FreshJob]) -> Iterator[int]:
    """Failed jobs that came in before, and for which jobs done to their ends may decide."""
    moments: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if row.state in DONE:
            moments[row.device_id].append(row.finished_at)
    for device, moment in moments.items():
        yield from decided_by(tx, device, min(moment), max(moment))


def _clock_policies(tx: Connection, hashes: set[str]) -> dict[str, str]:
    facts = read_facts(tx, hashes)
    return {sha: known.get("clock_policy") or "default" for sha, known in facts.items()}


def _canary(job: _FreshJob) -> canaries.CanaryReading | None:
    if not job.telemetry:
        return None
    return canaries.reading_in(job.device_id, job.environment, job.telemetry)


def _place(
    tx: Connection, jobs: Sequence[_FreshJob], known: dict[str, str], off: set[int]
) -> tuple[set[int], set[int]]:
    """Give the timings of jobs their series, and those `off` or suspect a flag.

    Return the series, and the suspect jobs.
    """
    by_id = {row.id: row for row in jobs}
    measurement, verdict = schema.measurement.c, schema.verdict.c
    query = (
        select_record(_Timing, schema.measurement, schema.verdict, schema.kernel_case)
        .join(schema.job, schema.job.c.id == measurement.job_id)
        .join(schema.kernel_case, schema.kernel_case.c.id == schema.job.c.case_id)
        .outerjoin(schema.verdict, verdict.job_id == measurement.job_id)
        .where(measurement.job_id.in_(by_id))
    )
    timings = fetch(tx, query, _Timing)
    reached = roofs.newest(tx, {(row.device_id, row.environment) for row in jobs})
    best = roofs.best(tx, {row.device_id for row in jobs})
    identities = [_identity(by_id[row.job_id], row, known) for row in timings]
    ids = series_ids(tx, identities)
    rows = [
        {
            "job": timing.job_id,
            "timed": timing.metric,
            "of": timing.side,
            "series": ids[identity],
            "moment": by_id[timing.job_id].finished_at,
            "why": _flag(timing, by_id[timing.job_id], off, best),
            **_shares(timing, by_id[timing.job_id], reached),
        }
        for timing, identity in zip(timings, identities, strict=True)
    ]
    _update(tx, rows)
    flagged = zip(timings, rows, strict=True)
    return set(ids.values()), {timing.job_id for timing, row in flagged if row["why"] == SUSPECT}


def _identity(job: _FreshJob, timing: _Timing, known: dict[str, str]) -> Identity:
    return Identity(
        device_id=job.device_id,
        case_id=job.case_id,
        variant=job.variant,
        metric=timing.metric,
        side=timing.side,
        environment_class=_environment_class(job, known),
        track=job.track,
    )


def _environment_class(job: _FreshJob, known: dict[str, str]) -> str:
    """Its clock policy; timings with bounds checked take longer, and are series of their own."""
    clocks = known.get(job.environment, "default")
    is_checked = bool((job.telemetry or {}).get(BOUNDS_CHECKED))
    return f"{clocks}, {CHECKED}" if is_checked else clocks


def _shares(
    timing: _Timing, job: _FreshJob, reached: Mapping[roofs.Place, roofs.Roofs]
) -> dict[str, float | None]:
    if job.mode in (Mode.SHARDED, Mode.COMPILE):  # a roof is one device's, and of launches
        return {"of_roof": None, "of_path": None}
    load = _load(timing, job)
    known = reached.get((job.device_id, job.environment))
    return {
        "of_roof": roofs.roof_fraction(load, timing.seconds, known),
        "of_path": roofs.path_fraction(load, timing.seconds, known),
    }


def _load(timing: _Timing, job: _FreshJob) -> roofs.RoofLoad:
    return roofs.RoofLoad(
        bytes_moved=timing.bytes_moved,
        flops=timing.flops,
        numbers=roofs.numbers_of(timing.format, timing.types),
        path=timing.path or "",
        variant=variant_of(job.variant),
        is_cold=_is_cold(timing),
        kernel=timing.kernel,
    )


def _is_cold(timing: _Timing) -> bool:
    is_warm = any(warning.startswith(NOT_COLD) for warning in timing.warnings)
    return timing.metric == "cold" and not is_warm


def _flag(timing: _Timing, job: _FreshJob, off: set[int], best: Mapping[int, roofs.Roofs]) -> str:
    if timing.seconds <= 0:
        return NO_TIME
    is_ours = job.mode == Mode.PERFORMANCE and job.track != PEERS
    if is_ours and is_impossible(_load(timing, job), timing.seconds, best.get(job.device_id)):
        return SUSPECT
    if any(warning.startswith(THROTTLED) for warning in timing.warnings):
        return THROTTLED
    if (job.telemetry or {}).get(THROTTLED):
        return THROTTLED
    return canaries.DEVICE_OFF if job.id in off else ""


def _update(tx: Connection, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    table = schema.measurement
    tx.execute(
        update(table)
        .where(
            table.c.job_id == bindparam("job"),
            table.c.metric == bindparam("timed"),
            table.c.side == bindparam("of"),
        )
        .values(
            series_id=bindparam("series"),
            measured_at=bindparam("moment"),
            flag=bindparam("why"),
            roof_fraction=bindparam("of_roof"),
            path_fraction=bindparam("of_path"),
        ),
        rows,
    )


def _note_scan(tx: Connection, touched: set[int], now: float) -> None:
    series = schema.series.c
    tx.execute(
        update(schema.series)
        .where(series.id.in_(touched), series.scan_due_at.is_(None))
        .values(scan_due_at=now + SCAN_SECONDS)
    )
