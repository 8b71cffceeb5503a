"""Runs leave a database as text and enter another: for hosts without a network, and for archives.

`export_run` in one reading transaction, `import_lines` (intake.py) in one writing one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, func, select

from vkbench.device import DeviceFacts, Environment
from vkbench.job import UNFINISHED, Mode, Outcome, State
from vkbench.result import Timing, Verdict
from vkbench.wire import encode, from_builtins
from vkbench_db import models
from vkbench_db.intake import Imported, import_lines
from vkbench_db.lines import (
    FORMAT,
    VERSION,
    AttemptLine,
    BundleLine,
    End,
    EnvironmentLine,
    Header,
    JobLine,
    RunLine,
)

__all__ = ["Imported", "export_run", "import_lines"]

PAGE = 500  # jobs read at once

AnyRow = Row[*tuple[Any, ...]]


def export_run(tx: Connection, run: int) -> Iterator[str]:
    """A run as lines, each with its line end; `tx` is a reading transaction."""
    digest = hashlib.sha256()
    jobs = 0
    for kind, record in _records(tx, run):
        line = _line(kind, record)
        digest.update(line.encode())
        jobs += kind == "job"
        yield line
    yield _line("end", End(jobs=jobs, sha256=digest.hexdigest()))


def _line(kind: str, record: object) -> str:
    return encode({kind: record}).decode() + "\n"


def _records(tx: Connection, run: int) -> Iterator[tuple[str, object]]:
    job = models.Job
    count = tx.execute(select(func.count()).where(job.run_id == run)).scalar_one()
    yield "header", Header(format=FORMAT, version=VERSION, jobs=count)
    yield "run", _run(tx, run)
    for facts in _devices(tx, run):
        yield "device", facts
    for environment in _environments(tx, run):
        yield "environment", environment
    for bundle in _bundles(tx, run):
        yield "bundle", bundle
    for record in _jobs(tx, run):
        yield "job", record


def _run(tx: Connection, run: int) -> RunLine:
    row = tx.execute(select(models.Run.__table__).where(models.Run.id == run)).one()
    return RunLine(
        uuid=row.uuid,
        created_at=row.created_at,
        user=row.user_name,
        label=row.label,
        tags=row.tags,
        selection=row.selection,
        mode=Mode(row.mode),
        priority=row.priority,
        cancelled_at=row.cancelled_at,
        track=row.track,
    )


def _devices(tx: Connection, run: int) -> list[DeviceFacts]:
    used = select(models.Job.device_id).where(models.Job.run_id == run)
    device = models.Device
    rows = tx.execute(select(device.facts).where(device.id.in_(used)).order_by(device.key))
    return [from_builtins(row.facts, DeviceFacts) for row in rows]


def _environments(tx: Connection, run: int) -> list[EnvironmentLine]:
    used = (
        select(models.Attempt.environment)
        .join(models.Job, models.Job.id == models.Attempt.job_id)
        .where(models.Job.run_id == run)
    )
    environment = models.Environment
    rows = tx.execute(
        select(environment.hash, environment.facts)
        .where(environment.hash.in_(used))
        .order_by(environment.hash)
    )
    return [
        EnvironmentLine(hash=row.hash, facts=from_builtins(row.facts, Environment)) for row in rows
    ]


def _bundles(tx: Connection, run: int) -> list[BundleLine]:
    used = select(models.Job.bundle).where(models.Job.run_id == run)
    bundle = models.Bundle
    rows = tx.execute(select(bundle.__table__).where(bundle.sha.in_(used)).order_by(bundle.sha))
    return [BundleLine(**row._mapping) for row in rows]


def _jobs(tx: Connection, run: int) -> Iterator[JobLine]:
    job = models.Job
    after = -1
    while rows := tx.execute(
        select(
            job.__table__,
            models.Device.key.label("device"),
            models.KernelCase.name.label("case"),
        )
        .join(models.Device, models.Device.id == job.device_id)
        .join(models.KernelCase, models.KernelCase.id == job.case_id)
        .where(job.run_id == run, job.position > after)
        .order_by(job.position)
        .limit(PAGE)
    ).all():
        ids = [row.id for row in rows]
        attempts = _by_job(tx, models.Attempt, ids, "token")
        verdicts = _by_job(tx, models.Verdict, ids, "token")
        timings = _by_job(tx, models.Measurement, ids, "metric")
        for row in rows:
            yield _job(
                row, attempts.get(row.id, []), verdicts.get(row.id, []), timings.get(row.id, [])
            )
        after = rows[-1].position


def _by_job(
    tx: Connection, model: type[models.Model], ids: Sequence[int], order: str
) -> dict[int, list[AnyRow]]:
    table = model.__table__
    found: dict[int, list[AnyRow]] = {}
    for row in tx.execute(
        select(table).where(table.c.job_id.in_(ids)).order_by(table.c.job_id, table.c[order])
    ):
        found.setdefault(row.job_id, []).append(row)
    return found


_JOB_COLUMNS = (
    *("position", "device", "case", "variant", "bundle", "limit_seconds", "measure_seconds"),
    *("noise", "estimate_seconds", "token", "tries", "dispatches", "finished_at"),
    *("settled_token", "cause", "reason", "against", "metric", "new_first"),
)


def _job(
    row: AnyRow,
    attempts: Sequence[AnyRow],
    verdicts: Sequence[AnyRow],
    timings: Sequence[AnyRow],
) -> JobLine:
    return JobLine(
        **{name: row._mapping[name] for name in _JOB_COLUMNS},
        mode=Mode(row.mode),
        state=State.QUEUED if row.state in UNFINISHED else State(row.state),
        attempts=tuple(map(_attempt, attempts)),
        verdict=Verdict(**_named(verdicts[0], Verdict)) if verdicts else None,
        timings=tuple(map(_timing, timings)),
    )


def _attempt(row: AnyRow) -> AttemptLine:
    return AttemptLine(**_named(row, AttemptLine) | {"outcome": Outcome(row.outcome)})


def _timing(row: AnyRow) -> Timing:
    texts = {
        "samples": base64.b64encode(row.samples).decode(),
        "warnings": tuple(row.warnings),
    }
    return Timing(**_named(row, Timing) | texts)


def _named(row: AnyRow, record: type[Any]) -> dict[str, Any]:
    return {field.name: row._mapping[field.name] for field in fields(record)}
