"""What a job's page shows: the request, each attempt, its verdict, timings and software."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from vkbench.errors import UnknownName
from vkbench.job import JobState, Mode
from vkbench.result import HOT, Statistic, Verdict, WrongArm
from vkbench_db import schema
from vkbench_db.ask.devices.environments import read_facts
from vkbench_db.ask.statistics import statistics_of
from vkbench_db.ask.timings import is_our_time, unpack_stored
from vkbench_db.batches import batches
from vkbench_db.rows import fetch, fetch_first, record_of, select_record


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What a job is, and where it stands."""

    id: int
    run: int
    run_label: str
    track: str
    host: str
    device: str  # key
    device_name: str
    case_name: str
    kernel: str
    format: str
    types: str
    shape: str
    params: str
    mode: str
    variant: str  # code path asked for
    bundle: str  # SHA-256 asked for, "" for the packaged one
    arm_kind: str  # what that is: an ArmKind
    against: str  # of a paired job
    metric: str
    limit_seconds: float
    measure_seconds: float
    state: str
    tries: int
    dispatches: int
    dispatched_at: float | None
    finished_at: float | None
    settled_token: int | None
    cause: str
    reason: str
    source: Mapping[str, Any] | None  # vkbench.job.Source


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """One dispatch that returned a result."""

    token: int
    outcome: str
    reason: str
    variant: str
    settings: str
    kernel_sha: str
    bundle: str
    environment: str  # hash
    worker: str
    started_at: float | None
    seconds: float
    telemetry: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TimingRow:
    """One metric of one side, with its samples."""

    metric: str
    side: str
    seconds: float
    mad: float
    low: float
    high: float
    confidence: float
    best: float
    count: int
    launches: int
    stop: str
    clock: str
    bytes_moved: int
    flops: int
    warnings: Sequence[str]
    roof_fraction: float | None
    path_fraction: float | None
    flag: str
    series: int | None
    samples: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class LastGood:
    """The newest earlier result that passed, of the same device, case, mode and variant."""

    job: int
    finished_at: float
    attempt: AttemptRow


@dataclass(frozen=True, kw_only=True)
class ToldStatistic:
    """What a driver made of the kernel, and what it was when the case last passed."""

    now: Statistic
    before: Statistic | None

    @property
    def has_changed(self) -> bool:
        """Whether the number is not what it was."""
        return self.before is not None and self.now.differs_from(self.before)


@dataclass(frozen=True, kw_only=True)
class JobStory:
    """A job with all that came of it."""

    facts: JobFacts
    attempts: Sequence[AttemptRow]  # in the order of their dispatches
    verdict: Verdict | None
    timings: Sequence[TimingRow]
    last_good: LastGood | None
    statistics: Sequence[ToldStatistic]
    environments: Mapping[str, Mapping[str, Any]]  # facts by hash, of all attempts named here

    @property
    def settling(self) -> AttemptRow | None:
        """The attempt that decided the job; of one undecided, the last."""
        decided = [
            attempt for attempt in self.attempts if attempt.token == self.facts.settled_token
        ]
        known = decided or self.attempts
        return known[-1] if known else None


def story(tx: Connection, job: int) -> JobStory:
    """All about a job; UnknownName if there is none of this number."""
    facts = _facts(tx, job)
    attempts = _attempts(tx, job)
    last_good = _last_good(tx, job, facts)
    named = {attempt.environment for attempt in attempts}
    if last_good:
        named.add(last_good.attempt.environment)
    return JobStory(
        facts=facts,
        attempts=attempts,
        verdict=_verdict(tx, job),
        timings=_timings(tx, job),
        last_good=last_good,
        statistics=_statistics(tx, job, last_good.job if last_good else job),
        environments=read_facts(tx, named),
    )


def hot_seconds(tx: Connection, device: str, cases: Sequence[str]) -> dict[str, float]:
    """What cases took hot, the last time that a device timed each of them."""
    latest, case, timing = schema.latest.c, schema.kernel_case.c, schema.measurement.c
    seconds: dict[str, float] = {}
    for names in batches(cases):
        query = (
            select(case.name, timing.seconds)
            .join(schema.latest, latest.case_id == case.id)
            .join(schema.device, schema.device.c.id == latest.device_id)
            .join(schema.measurement, is_our_time(latest.job_id, HOT))
            .where(case.name.in_(names), schema.device.c.key == device)
            .where(latest.mode == Mode.PERFORMANCE)
            .order_by(latest.finished_at)
        )
        seconds |= {row.name: row.seconds for row in tx.execute(query)}
    return seconds


def _facts(tx: Connection, number: int) -> JobFacts:
    job, run = schema.job.c, schema.run.c
    tables = (schema.job, schema.kernel_case, schema.run)
    query = (
        select_record(JobFacts, *tables, run=run.id, run_label=run.label)
        .select_from(schema.named_jobs)
        .join(schema.run, run.id == job.run_id)
        .where(job.id == number)
    )
    facts = fetch_first(tx, query, JobFacts)
    if facts is None:
        raise UnknownName("job", str(number))
    return facts


def _attempts(tx: Connection, job: int) -> list[AttemptRow]:
    attempt = schema.attempt.c
    query = select_record(AttemptRow, schema.attempt).where(attempt.job_id == job)
    return fetch(tx, query.order_by(attempt.token), AttemptRow)


def _verdict(tx: Connection, job: int) -> Verdict | None:
    row = tx.execute(select(schema.verdict).where(schema.verdict.c.job_id == job)).mappings()
    stored = row.first()
    if stored is None:
        return None
    return record_of({**stored, "wrong_arm": WrongArm(stored["wrong_arm"])}, Verdict)


def _timings(tx: Connection, job: int) -> list[TimingRow]:
    table = schema.measurement.c
    rows = tx.execute(
        select(schema.measurement)
        .where(table.job_id == job)
        .order_by(table.metric.desc(), table.side)
    ).mappings()
    return [
        record_of(
            {
                **row,
                "series": row["series_id"],
                "samples": unpack_stored(row["samples"]),
            },
            TimingRow,
        )
        for row in rows
    ]


def _statistics(tx: Connection, job: int, before: int) -> list[ToldStatistic]:
    by_job = statistics_of(tx, {job, before})
    earlier = {old.name: old for old in by_job.get(before, ()) if before != job}
    return [
        ToldStatistic(now=statistic, before=earlier.get(statistic.name))
        for statistic in by_job.get(job, ())
    ]


def _last_good(tx: Connection, number: int, facts: JobFacts) -> LastGood | None:
    job = schema.job.c
    this = tx.execute(select(job.case_id, job.device_id).where(job.id == number)).one()
    query = (
        select(job.id, job.finished_at, job.settled_token)
        .where(
            *(job.case_id == this.case_id, job.device_id == this.device_id),
            *(job.mode == facts.mode, job.variant == facts.variant),
            *(job.finished_at.is_not(None), job.state == JobState.PASSED, job.id != number),
        )
        .order_by(job.finished_at.desc(), job.id.desc())
        .limit(1)
    )
    if facts.finished_at is not None:
        query = query.where(job.finished_at <= facts.finished_at)
    last = tx.execute(query).first()
    if last is None:
        return None
    attempts = [
        attempt for attempt in _attempts(tx, last.id) if attempt.token == last.settled_token
    ]
    if not attempts or last.finished_at is None:
        return None
    return LastGood(job=last.id, finished_at=last.finished_at, attempt=attempts[0])
