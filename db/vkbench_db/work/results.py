"""Store results: each attempt once; the first attempt that settles a job decides its state."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, select, update

from vkbench.bounds import count_complaints
from vkbench.job import (
    FINISHED,
    IN_FLIGHT,
    MAX_TRIES,
    SETTLED,
    TRIED_STATES,
    JobState,
    Outcome,
)
from vkbench.result import MEMORY_BYTES, Result, Statistic, Timing, Verdict
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.older import timings_of
from vkbench_db.rows import insert_missing, lock_jobs
from vkbench_db.work.latest import note

RECORD_BATCH = 500
MOST_TEXT = 4000  # characters of a reason: a runner's last words are as long as it likes
MOST_SAMPLE_BYTES = 2**24  # unpacked: an hour of samples; as numbers they take eight times that
MOST_WHOLE = 2**53  # beyond this a number in JSON is not a number any more
MOST_INTEGER = 2**31 - 1  # ids and tokens


@dataclass(frozen=True, kw_only=True)
class StoredBatch:
    """What was stored of a batch of results."""

    counts: Mapping[JobState, int] = field(default_factory=dict)  # results by the state they led to
    duplicates: int = 0  # attempts that were stored before
    late: int = 0  # attempts stored that left their job where it was: ended, or sent again
    returned: int = 0  # jobs that a worker handed back
    unknown: int = 0  # of no job that was ever sent from here

    @property
    def ignored(self) -> int:
        """How many results moved no job."""
        return self.duplicates + self.late + self.unknown


@dataclass(kw_only=True)
class _Job:
    """A locked job, changed in memory while a batch of results is applied to it."""

    id: int
    state: str
    token: int
    tries: int
    case_id: int
    case: str
    metric: str  # of a paired job
    dispatches: int
    seen: set[int]  # tokens whose attempt is stored
    settled_token: int | None = None
    cause: str = ""
    reason: str = ""
    touched: bool = False


def record(tx: Connection, results: Sequence[Result], now: float) -> StoredBatch:
    """Store a batch of results and move their jobs; doing it again changes nothing."""
    counts: Counter[str] = Counter()
    for batch in batches(results, RECORD_BATCH):
        counts.update(_record(tx, batch, now))
    note(tx, (result.job for result in results if 0 < result.job <= MOST_INTEGER))
    return StoredBatch(
        counts={state: counts[state] for state in JobState if counts[state]},
        duplicates=counts["duplicates"],
        late=counts["late"],
        returned=counts["returned"],
        unknown=counts["unknown"],
    )


def _record(tx: Connection, results: Sequence[Result], now: float) -> Counter[str]:
    jobs = _lock(tx, [result.job for result in results])
    counts: Counter[str] = Counter()
    attempts: list[Result] = []
    settling: list[Result] = []
    for result in map(_storable, results):
        job = jobs.get(result.job)
        if result.outcome is Outcome.HANDED_BACK:
            counts["returned" if job and _take_back(job, result) else "late"] += 1
        elif job is None or not 0 < result.token <= job.token or result.case not in ("", job.case):
            counts["unknown"] += 1
        elif result.token in job.seen:
            counts["duplicates"] += 1
        else:
            job.seen.add(result.token)
            attempts.append(result)
            if not _apply(job, result):
                counts["late"] += 1
                continue
            counts[job.state] += 1
            if result.outcome in SETTLED:
                timings = timings_of(result.timings, job.metric)
                settling.append(replace(result, timings=timings))
    _store(tx, attempts, settling, now)
    _move(tx, [job for job in jobs.values() if job.touched], now)
    return counts


def _take_back(job: _Job, result: Result) -> bool:
    """Queue a job again that its worker never ended; return whether its state changed."""
    if job.state not in IN_FLIGHT or result.token != job.token or job.token in job.seen:
        return False
    job.touched, job.state = True, JobState.QUEUED
    job.reason = result.reason  # for what it waits
    job.dispatches -= 1  # it is no fault of the job, however often workers are stopped
    return True


def _apply(job: _Job, result: Result) -> bool:
    """Move a job by one new attempt; return whether its state changed."""
    before = job.state
    if before in FINISHED:
        return False
    job.touched = True
    if result.outcome in SETTLED:  # of whatever token: the work is done
        job.state, job.settled_token = JobState(result.outcome), result.token
        job.cause, job.reason = "", result.reason
        return True
    # It ran, so it costs a try even if the job was sent again meanwhile: a job that takes its
    # worker along is always heard of late. A newer dispatch keeps the job.
    job.tries += 1
    job.cause, job.reason = result.outcome, result.reason
    if job.tries >= MAX_TRIES:
        job.state = JobState.FAILED
    elif result.token == job.token:
        job.state = JobState.QUEUED
    return job.state != before


def _lock(tx: Connection, job_ids: Sequence[int]) -> dict[int, _Job]:
    rows = lock_jobs(tx, [job for job in job_ids if 0 < job <= MOST_INTEGER])
    ids = [row.id for row in rows]
    seen: dict[int, set[int]] = {job: set() for job in ids}
    attempt, case = schema.attempt.c, schema.kernel_case.c
    for row in tx.execute(select(attempt.job_id, attempt.token).where(attempt.job_id.in_(ids))):
        seen[row.job_id].add(row.token)
    cases = {row.case_id for row in rows}
    names = tx.execute(select(case.id, case.name).where(case.id.in_(cases))).all()
    case_names = {row.id: row.name for row in names}
    return {
        row.id: _Job(**vars(row), case=case_names[row.case_id], seen=seen[row.id]) for row in rows
    }


def _store(
    tx: Connection, attempts: Sequence[Result], settling: Sequence[Result], now: float
) -> None:
    insert_missing(tx, schema.attempt, [_attempt_row(result, now) for result in attempts])
    insert_missing(
        tx,
        schema.verdict,
        [verdict_row(r.job, r.token, r.verdict) for r in settling if r.verdict],
    )
    insert_missing(
        tx,
        schema.measurement,
        [timing_row(r.job, r.token, timing) for r in settling for timing in r.timings],
    )
    insert_missing(
        tx,
        schema.statistic,
        [statistic_row(r.job, r.token, one) for r in settling for one in r.statistics],
    )


def _move(tx: Connection, moved: Sequence[_Job], now: float) -> None:
    if not moved:
        return
    job = schema.job
    columns = ("state", "tries", "dispatches", "settled_token", "cause", "reason", "finished_at")
    tx.execute(
        update(job)
        .where(job.c.id == bindparam("job"))
        .values({name: bindparam(f"new_{name}") for name in columns}),
        [
            {
                "job": job.id,
                "new_state": job.state,
                "new_tries": job.tries,
                "new_dispatches": job.dispatches,
                "new_settled_token": job.settled_token,
                "new_cause": job.cause,
                "new_reason": job.reason,
                "new_finished_at": now if job.state in FINISHED else None,
            }
            for job in moved
        ],
    )
    ended = [job for job in moved if job.state in TRIED_STATES]
    insert_missing(tx, schema.fresh, [{"job_id": job.id} for job in ended])


_TOLD = [field.name for field in fields(Result) if field.name in schema.attempt.c]


def _attempt_row(result: Result, now: float) -> dict[str, Any]:
    return {name: getattr(result, name) for name in _TOLD} | {
        "job_id": result.job,
        "started_at": result.started or None,
        "telemetry": dict(result.telemetry),
        "memory_bytes": memory_of(result.telemetry),
        "recorded_at": now,
    }


def memory_of(telemetry: Mapping[str, float]) -> float | None:
    """The most device memory that a whole model took, if an attempt told."""
    return telemetry.get(MEMORY_BYTES)


def verdict_row(job: int, token: int, verdict: Verdict) -> dict[str, Any]:
    """The row that stores a verdict."""
    return {"job_id": job, "token": token, **vars(verdict)}


def timing_row(job: int, token: int, timing: Timing) -> dict[str, Any]:
    """The row that stores a timing; its samples are bytes."""
    return {
        "job_id": job,
        "token": token,
        **vars(timing),
        "samples": base64.b64decode(timing.samples),
        "warnings": list(timing.warnings),
    }


def statistic_row(job: int, token: int, statistic: Statistic) -> dict[str, Any]:
    """The row that stores a statistic."""
    return {"job_id": job, "token": token, **vars(statistic)}


def _storable(result: Result) -> Result:
    """The result without values that one of the engines refuses to store.

    Runners execute foreign shaders, so nothing that one says may stop the collector: text loses
    what PostgreSQL refuses, and a result whose numbers make no sense becomes an error of its job.
    """
    complaint = next(_complaints(result), "")
    if complaint:
        result = Result(
            job=result.job,
            token=result.token,
            outcome=Outcome.ERROR,
            case=result.case,
            reason=f"malformed result: {complaint}",
            device=result.device,
        )
    return replace(
        _clean_record(result),
        verdict=_clean_record(result.verdict) if result.verdict else None,
        timings=tuple(map(_clean_record, result.timings)),
        statistics=tuple(map(_clean_record, result.statistics)),
    )


R = TypeVar("R", Result, Verdict, Timing, Statistic)


def _clean_record(record: R) -> R:
    changes: dict[str, Any] = {}
    for name, value in vars(record).items():
        if type(value) is str and name != "samples":
            changes[name] = _clean(value)
        elif name == "warnings":
            changes[name] = tuple(map(_clean, value))
    return replace(record, **changes)


def _clean(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()[:MOST_TEXT]


def _complaints(result: Result) -> Iterator[str]:
    yield from count_complaints(result)
    if not 0 <= result.started < 2**33:
        yield "started at no moment"
    for where, numbers in _parts(result):
        for name, value in numbers.items():
            if isinstance(value, float) and not math.isfinite(value):
                yield f"{where} {name} is {value}"
            if isinstance(value, int) and abs(value) > _most(name):
                yield f"{where} {name} is out of range"
    timed = [(timing.metric, timing.side) for timing in result.timings]
    if len(set(timed)) < len(timed):
        yield "a metric was given twice"
    if len({_clean(one.name) for one in result.statistics}) < len(result.statistics):
        yield "a statistic was given twice"
    for timing in result.timings:
        if not is_packed(timing.samples):
            yield f"the samples of {timing.metric} cannot be read"


def _most(name: str) -> int:
    return MOST_INTEGER if name in ("count", "launches") else MOST_WHOLE


def _parts(result: Result) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "the attempt's", {"seconds": result.seconds}
    yield "the telemetry's", result.telemetry
    if result.verdict:
        yield "the verdict's", asdict(result.verdict)
    for timing in result.timings:
        yield f"{timing.metric}'s", asdict(timing)
    for statistic in result.statistics:
        yield f"{statistic.name[:60]}'s", asdict(statistic)


def is_packed(samples: str) -> bool:
    """Whether `vkbench.result.unpack_samples` can read them."""
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(base64.b64decode(samples, validate=True), MOST_SAMPLE_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        return False
    return unpacker.eof and len(unpacked) % 4 == 0  # else it is cut off, or larger than that
