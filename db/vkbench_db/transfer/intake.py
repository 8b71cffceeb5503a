"""Import exported runs: each whole or not at all, and safe to repeat.

What is known stays as it is; a run that was exported before it was done goes on where it stood.
What an imported run has left is stored as `elsewhere`: its own database runs it. For a run that was
made here, this database is the authority: of its jobs only results that settle one still open are
taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby

from sqlalchemy import Connection, bindparam, exc, select, update

from vkbench.accuracy import Accuracy
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench.job import FINISHED, SETTLED_STATES, TRIED_STATES, UNFINISHED, JobState
from vkbench.programs.build import Build
from vkbench.result import Side, Timing
from vkbench.run import RunKind
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.errors import ImportRefused
from vkbench_db.older import purpose_of, tags_of, timings_of
from vkbench_db.rows import fetch, insert_missing, insert_rows, record_of, select_record
from vkbench_db.transfer import bounds
from vkbench_db.transfer.lines import (
    AccuracyLine,
    BundleLine,
    EnvironmentLine,
    JobLine,
    RunLine,
)
from vkbench_db.transfer.transcript import Line, read_records
from vkbench_db.work.builds import store_build
from vkbench_db.work.bundles import note_revisions
from vkbench_db.work.devices import note_environments, store_device
from vkbench_db.work.latest import note_runs
from vkbench_db.work.results import (
    is_packed,
    memory_of,
    statistic_row,
    timing_row,
    verdict_row,
)
from vkbench_db.work.runs import add_accuracies, case_ids

BATCH = 500

_MISFITS = (exc.DataError, exc.IntegrityError)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import stored."""

    runs: tuple[int, ...]  # the runs' numbers here
    new: int  # jobs
    updated: int  # jobs known unfinished
    known: int  # jobs that stay as they were
    attempts: int  # new ones
    losses: int = 0  # rows of accuracy runs, known ones too


@dataclass(frozen=True)
class _Target:
    """The run that imported jobs belong to."""

    id: int
    is_foreign: bool
    is_of_peer: bool  # another program timed it by itself
    devices: dict[str, int]  # ids by key


@dataclass(frozen=True, kw_only=True)
class _KnownJob:
    """A job of the file that this database has already."""

    id: int
    position: int
    device_id: int
    case_id: int
    mode: str
    variant: str
    state: str
    token: int
    tries: int
    dispatches: int


def import_lines(tx: Connection, lines: Iterable[str], now: float) -> Imported:
    """Import what `export_run` wrote: one run, or several after each other.

    ImportRefused names the line that is wrong; the caller's transaction then leaves nothing behind.
    """
    return import_records(tx, read_records(lines), now)


def import_records(tx: Connection, records: Iterable[Line], now: float) -> Imported:
    """Import the records of such lines, in their order."""
    counts: Counter[str] = Counter()
    runs: list[int] = []
    section: list[Line] = []
    target: _Target | None = None
    losses = 0
    for kind, group in groupby(map(_check_line, records), key=lambda line: line.kind):
        if kind == "header":
            section, target = [], None
        if kind == "job":
            target = _prepare(tx, section, now)
            runs.append(target.id)
            for batch in batches(group, BATCH):
                with _misfits_refused(batch):
                    counts.update(_jobs(tx, target, batch))
            note_environments(tx, target.devices.values())
        elif kind == "end" and target is None:
            runs.append(_prepare(tx, section, now).id)  # a run without jobs
        else:
            lines = [*group]
            losses += len(lines) if kind == "accuracy" else 0
            section += lines
    if not runs:
        raise ImportRefused("the file is empty")
    note_runs(tx, runs)
    return Imported(
        runs=tuple(runs),
        new=counts["new"],
        updated=counts["updated"],
        known=counts["known"],
        attempts=counts["attempts"],
        losses=losses,
    )


def _check_line(line: Line) -> Line:
    return line._replace(record=bounds.check_record(line.number, line.record))


@contextmanager
def _misfits_refused(lines: Sequence[Line]) -> Iterator[None]:
    """Refuse the file if it has values that the database cannot hold."""
    try:
        yield
    except (exc.StatementError, OverflowError) as error:
        if isinstance(error, exc.DBAPIError) and not isinstance(error, _MISFITS):
            raise
        first, last = lines[0].number, lines[-1].number
        raise ImportRefused(f"lines {first} to {last}: values that cannot be kept") from error


def _prepare(tx: Connection, section: Sequence[Line], now: float) -> _Target:
    with _misfits_refused(section):
        return _store_section(tx, section, now)


def _store_section(tx: Connection, section: Sequence[Line], now: float) -> _Target:
    devices: dict[str, int] = {}
    for line in section:
        match line.record:
            case DeviceFacts() as facts:
                devices[facts.key] = store_device(tx, facts)
            case EnvironmentLine() as environment:
                _store_environment(tx, environment)
            case BundleLine() as bundle:
                insert_missing(tx, schema.bundle, [asdict(bundle)])
                note_revisions(tx, bundle.sha, bundle.made_of)
            case Build() as build:
                store_build(tx, build)
    [run] = [line.record for line in section if isinstance(line.record, RunLine)]
    target = _store_run(tx, run, devices, now)
    if target.is_foreign:
        _store_accuracies(tx, target.id, section)
    return target


def _store_environment(tx: Connection, line: EnvironmentLine) -> None:
    row = {
        "hash": line.hash,
        "driver": line.facts.driver,
        "driver_version": line.facts.driver_version,
        "facts": asdict(line.facts),
    }
    insert_missing(tx, schema.environment, [row])


def _store_accuracies(tx: Connection, run: int, section: Sequence[Line]) -> None:
    lines = [line.record for line in section if isinstance(line.record, AccuracyLine)]
    add_accuracies(tx, run, {line.position: record_of(vars(line), Accuracy) for line in lines})


def _store_run(tx: Connection, line: RunLine, devices: dict[str, int], now: float) -> _Target:
    if line.kind is None:
        purpose, tags = purpose_of(line), tags_of(line)
        line = replace(line, kind=purpose.kind, about=purpose.about, tags=tags)
    row = asdict(line) | {"imported_at": now, "user_name": line.user}
    del row["user"]
    insert_missing(tx, schema.run, [row])
    run = schema.run.c
    stored = tx.execute(
        select(run.id, run.kind, run.imported_at).where(run.uuid == line.uuid)
    ).one()
    is_foreign = stored.imported_at is not None
    if is_foreign and line.cancelled_at is not None:
        tx.execute(
            update(schema.run)
            .where(run.id == stored.id, run.cancelled_at.is_(None))
            .values(cancelled_at=line.cancelled_at)
        )
    is_of_peer = stored.kind == RunKind.IMPORT
    return _Target(id=stored.id, is_foreign=is_foreign, is_of_peer=is_of_peer, devices=devices)


def _jobs(tx: Connection, target: _Target, lines: Sequence[Line]) -> Counter[str]:
    for line in lines:
        _check_job(line, target)
    cases = _cases(tx, lines)
    known = _find_known_jobs(tx, target, lines)
    new = [line for line in lines if line.record.position not in known]
    _insert_jobs(tx, target, new, cases)
    advanced = [
        line
        for line in lines
        if line.record.position in known
        and _goes_on(line, known[line.record.position], target, cases)
    ]
    _advance(tx, [(known[line.record.position], line.record) for line in advanced])
    ids = {position: row.id for position, row in _find_known_jobs(tx, target, lines).items()}
    counts = Counter(new=len(new), updated=len(advanced))
    counts["known"] = len(lines) - counts["new"] - counts["updated"]
    counts["attempts"] = _store_attempts(tx, lines, ids)
    _store_results(tx, target, new + advanced, ids)
    return counts


def _insert_jobs(
    tx: Connection, target: _Target, lines: Sequence[Line], cases: dict[str, int]
) -> None:
    if not lines:
        return
    if not target.is_foreign:
        raise ImportRefused(f"line {lines[0].number}: the run was made here and has no such job")
    rows = []
    for line in lines:
        job: JobLine = line.record
        own = {name: getattr(job, name) for name in _KEPT} | {"state": _state(job)}
        rows.append(
            own
            | {
                "run_id": target.id,
                "device_id": target.devices[job.device],
                "case_id": cases[job.case],
            }
        )
    insert_rows(tx, schema.job, rows)


def _check_job(line: Line, target: _Target) -> None:
    job: JobLine = line.record
    settles = job.state in SETTLED_STATES
    complaints = {
        f"its device {job.device} is not in the file": job.device not in target.devices,
        "its state and its end contradict each other": (
            (job.state in FINISHED and job.state != JobState.CANCELLED)
            != (job.finished_at is not None)
            or settles != (job.settled_token is not None)
        ),
        "the attempt that settled it is missing": settles
        and job.settled_token not in [attempt.token for attempt in job.attempts],
        "it has results and was not settled": not settles
        and bool(job.verdict or job.timings or job.statistics),
        "its samples cannot be read": not all(is_packed(timing.samples) for timing in job.timings),
    }
    for complaint, holds in complaints.items():
        if holds:
            raise ImportRefused(f"line {line.number}: job {job.position}: {complaint}")


def _cases(tx: Connection, lines: Sequence[Line]) -> dict[str, int]:
    try:
        return case_ids(tx, [line.record.case for line in lines])
    except VkbenchError as error:
        raise ImportRefused(f"lines {lines[0].number} to {lines[-1].number}: {error}") from error


def _find_known_jobs(
    tx: Connection, target: _Target, lines: Sequence[Line]
) -> dict[int, _KnownJob]:
    job = schema.job.c
    query = (
        select_record(_KnownJob, schema.job)
        .where(job.run_id == target.id, job.position.in_([line.record.position for line in lines]))
        .order_by(job.id)
        .with_for_update(key_share=True)
    )
    return {known.position: known for known in fetch(tx, query, _KnownJob)}


def _goes_on(line: Line, known: _KnownJob, target: _Target, cases: dict[str, int]) -> bool:
    """Whether the file has a later state of a job than this database."""
    job: JobLine = line.record
    same = (target.devices[job.device], cases[job.case], job.mode, job.variant)
    if same != (known.device_id, known.case_id, known.mode, known.variant):
        raise ImportRefused(f"line {line.number}: job {job.position} is another one here")
    if known.state in FINISHED:
        return False
    if not target.is_foreign:
        return job.state in SETTLED_STATES
    return job.state in FINISHED or (job.token, job.tries) > (known.token, known.tries)


def _advance(tx: Connection, jobs: Sequence[tuple[_KnownJob, JobLine]]) -> None:
    """Move known jobs to the file's state; counters never decrease."""
    if not jobs:
        return
    table = schema.job
    rows = [
        {f"new_{name}": getattr(job, name) for name in _MOVING}
        | {"new_state": _state(job)}
        | {f"new_{name}": max(getattr(job, name), getattr(known, name)) for name in _COUNTING}
        | {"job": known.id}
        for known, job in jobs
    ]
    tx.execute(
        update(table)
        .where(table.c.id == bindparam("job"))
        .values({name: bindparam(f"new_{name}") for name in _MOVING + _COUNTING}),
        rows,
    )


def _state(job: JobLine) -> JobState:
    return JobState.ELSEWHERE if job.state in UNFINISHED else job.state


def _store_attempts(tx: Connection, lines: Sequence[Line], ids: dict[int, int]) -> int:
    attempt = schema.attempt.c
    found = tx.execute(
        select(attempt.job_id, attempt.token).where(attempt.job_id.in_(ids.values()))
    )
    known = {(row.job_id, row.token) for row in found}
    rows = [
        {
            "job_id": ids[line.record.position],
            **vars(attempt),
            "memory_bytes": memory_of(attempt.telemetry),
        }
        for line in lines
        for attempt in line.record.attempts
    ]
    rows = [row for row in rows if (row["job_id"], row["token"]) not in known]
    insert_missing(tx, schema.attempt, rows)
    return len(rows)


def _store_results(
    tx: Connection, target: _Target, lines: Sequence[Line], ids: dict[int, int]
) -> None:
    settled = [(ids[line.record.position], line.record) for line in lines]
    verdicts = [
        verdict_row(id, job.settled_token, job.verdict) for id, job in settled if job.verdict
    ]
    timings = [
        timing_row(id, job.settled_token, timing)
        for id, job in settled
        for timing in _timings(target, job)
    ]
    insert_missing(tx, schema.verdict, verdicts)
    insert_missing(tx, schema.measurement, timings)
    statistics = [
        statistic_row(id, job.settled_token, one) for id, job in settled for one in job.statistics
    ]
    insert_missing(tx, schema.statistic, statistics)
    insert_missing(
        tx, schema.fresh, [{"job_id": id} for id, job in settled if job.state in TRIED_STATES]
    )


def _timings(target: _Target, job: JobLine) -> Sequence[Timing]:
    timings = timings_of(job.timings, job.metric)
    if not target.is_of_peer:
        return timings
    return [replace(timing, side=Side.THEIRS) for timing in timings]


_COUNTING = ("token", "tries", "dispatches")
_MOVING = ("state", "finished_at", "settled_token", "cause", "reason")
_KEPT = tuple(field.name for field in fields(JobLine) if field.name in schema.job.c)
