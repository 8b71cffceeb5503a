"""Runs: created, given their jobs, counted, cancelled."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update

from vkbench.accuracy import Accuracy
from vkbench.case import parse, program_of
from vkbench.errors import UnknownName
from vkbench.job import MAIN, OPEN, JobState, Mode, PlannedJob
from vkbench.run import RunWords
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import insert_missing, insert_rows
from vkbench_db.work.progress import Progress


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """The run that `create_run` stored, or found under the same idempotency key."""

    id: int
    uuid: str
    new: bool  # False: it was there before, with its jobs


def create_run(
    tx: Connection,
    *,
    mode: Mode,
    selection: Mapping[str, Any],
    now: float,
    words: RunWords = RunWords(),  # noqa: B008
    priority: int = 0,
    track: str = MAIN,
) -> NewRun:
    """Store a run without jobs, or return the run that was stored with this idempotency key."""
    values = {
        "uuid": str(uuid.uuid4()),
        "created_at": now,
        "user_name": words.user,
        "label": words.label,
        "kind": words.purpose.kind,
        "about": dict(words.purpose.about),
        "tags": dict(words.tags),
        "selection": dict(selection),
        "mode": mode,
        "priority": priority,
        "track": track,
        "idempotency_key": words.idempotency_key or None,
    }
    insert_missing(tx, schema.run, [values])
    run = schema.run.c
    same = run.uuid == values["uuid"]
    if words.idempotency_key:
        same |= run.idempotency_key == words.idempotency_key
    row = tx.execute(select(run.id, run.uuid).where(same)).one()
    return NewRun(id=row.id, uuid=row.uuid, new=row.uuid == values["uuid"])


def add_jobs(
    tx: Connection, run: int, jobs: Iterable[PlannedJob], state: JobState = JobState.QUEUED
) -> int:
    """Append jobs to a run, in bounded memory; return how many."""
    devices = {
        row.key: row.id for row in tx.execute(select(schema.device.c.key, schema.device.c.id)).all()
    }
    start = _next_position(tx, run)
    position = start
    for batch in batches(jobs):
        cases = case_ids(tx, [job.case for job in batch])
        rows = []
        for job in batch:
            if job.device not in devices:
                raise UnknownName("device", job.device, names.nearest(job.device, list(devices)))
            row = _row(job, run, position, devices[job.device], cases[job.case])
            rows.append(row | {"state": state})
            position += 1
        insert_rows(tx, schema.job, rows)
    return position - start


def cancel(tx: Connection, run: int, now: float) -> int:
    """Cancel the jobs of a run that have not ended, sent or not; return how many."""
    note_cancelled(tx, run, now)
    return cancel_jobs(tx, run)


def note_cancelled(tx: Connection, run: int, now: float) -> None:
    """Mark a run as cancelled: none of its jobs is sent any more."""
    tx.execute(
        update(schema.run)
        .where(schema.run.c.id == run, schema.run.c.cancelled_at.is_(None))
        .values(cancelled_at=now)
    )


def cancel_jobs(tx: Connection, run: int, span: range | None = None) -> int:
    """Cancel a run's jobs that have not ended, of all positions or of some; return how many."""
    job = schema.job.c
    active = (
        select(job.id)
        .where(job.run_id == run, job.state.in_(OPEN), *([within(span)] if span else []))
        .order_by(job.id)
        .with_for_update(key_share=True)
    )
    return tx.execute(
        update(schema.job)
        .where(job.id.in_(active.scalar_subquery()))
        .values(state=JobState.CANCELLED)
    ).rowcount


def within(span: range) -> ColumnElement[bool]:
    """Whether a job's position is one of these."""
    position = schema.job.c.position
    return (position >= span.start) & (position < span.stop)


def cancelled_since(tx: Connection, moment: float) -> list[int]:
    """Runs that were cancelled after a moment."""
    run = schema.run.c
    return list(tx.execute(select(run.id).where(run.cancelled_at > moment)).scalars())


def run_progress(tx: Connection, run: int) -> Progress:
    """How many of a run's jobs are in which state."""
    job = schema.job.c
    rows = tx.execute(
        select(job.state, func.count()).where(job.run_id == run).group_by(job.state)
    ).all()
    cancelled_at = tx.execute(
        select(schema.run.c.cancelled_at).where(schema.run.c.id == run)
    ).scalar_one()
    return Progress(
        counts={JobState(state): count for state, count in rows}, cancelled=cancelled_at is not None
    )


def case_ids(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    """Case ids by name; new cases are stored."""
    known = _known_cases(tx, names)
    missing = [_case_row(name) for name in dict.fromkeys(names) if name not in known]
    if missing:
        insert_missing(tx, schema.kernel_case, missing)
        known |= _known_cases(tx, [row["name"] for row in missing])
    return known


def _known_cases(tx: Connection, names: Sequence[str]) -> dict[str, int]:
    case = schema.kernel_case.c
    rows = tx.execute(select(case.name, case.id).where(case.name.in_(set(names)))).all()
    return {row.name: row.id for row in rows}


def _case_row(name: str) -> dict[str, str]:
    case = parse(name)
    parts = name.split("/")
    if program_of(name):
        parts = [case.kernel, case.format, case.rest]
    return {
        "name": name,
        "kernel": case.kernel,
        "format": case.format,
        "types": ",".join(f"{binding}={kind}" for binding, kind in sorted(case.types.items())),
        "shape": parts[2],
        "params": parts[3] if len(parts) == 4 else "",
    }


def _next_position(tx: Connection, run: int) -> int:
    last = tx.execute(
        select(func.max(schema.job.c.position)).where(schema.job.c.run_id == run)
    ).scalar()
    return 0 if last is None else last + 1


_PLANNED = [field.name for field in fields(PlannedJob) if field.name in schema.job.c]


def _row(job: PlannedJob, run: int, position: int, device: int, case: int) -> dict[str, object]:
    return {name: getattr(job, name) for name in _PLANNED} | {
        "run_id": run,
        "position": position,
        "device_id": device,
        "case_id": case,
        "source": asdict(job.source) if job.source else None,
        "against": job.pair.old.name if job.pair else "",
        "metric": job.pair.metric if job.pair else "",
        "new_first": bool(job.pair and job.pair.new_first),
    }


def add_accuracies(tx: Connection, run: int, accuracies: Mapping[int, Accuracy]) -> None:
    """Store rows of a run by their position; those that are there already stay as they are."""
    rows = [{"run_id": run, "position": at, **asdict(row)} for at, row in accuracies.items()]
    insert_missing(tx, schema.accuracy, rows)
