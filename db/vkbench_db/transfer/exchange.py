"""Export a run as text and import it elsewhere: for hosts without a network, and for archives.

`export_run` in one reading transaction, `import_lines` (intake.py) in one writing one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, RowMapping, Table, func, select

from vkbench.device import DeviceFacts, Environment
from vkbench.job import UNFINISHED, ArmKind, JobState, Mode, Outcome
from vkbench.messages.wire import encode, from_builtins
from vkbench.programs.build import Build
from vkbench.programs.ssh_keygen import sign_text
from vkbench.result import Side, Statistic, Timing, Verdict
from vkbench.run import RunKind
from vkbench_db import schema
from vkbench_db.rows import fetch, record_of
from vkbench_db.transfer.intake import Imported, import_lines
from vkbench_db.transfer.lines import (
    FORMAT,
    NAMESPACE,
    VERSION,
    AccuracyLine,
    AttemptLine,
    BundleLine,
    End,
    EnvironmentLine,
    Header,
    JobLine,
    RunLine,
    SignatureLine,
)
from vkbench_db.transfer.transcript import lines_of

__all__ = ["Imported", "export_run", "import_lines", "lines_of"]

PAGE = 500  # jobs read at once


def export_run(tx: Connection, run: int, key: Path | None = None) -> Iterator[str]:
    """Export a run as lines, each with its line end; `tx` is a reading transaction.

    The owner of an SSH key vouches for them if it is given.
    """
    digest = hashlib.sha256()
    jobs = 0
    for kind, record in _records(tx, run):
        line = _line(kind, record)
        digest.update(line.encode())
        jobs += kind == "job"
        yield line
    end = End(jobs=jobs, sha256=digest.hexdigest())
    yield _line("end", end)
    if key:
        signature = sign_text(end.statement, key, NAMESPACE, f"results by {key}")
        yield _line("signature", SignatureLine(signature=signature))


def _line(kind: str, record: object) -> str:
    return encode({kind: record}).decode() + "\n"


def _records(tx: Connection, run: int) -> Iterator[tuple[str, object]]:
    job = schema.job.c
    count = tx.execute(select(func.count()).where(job.run_id == run)).scalar_one()
    yield "header", Header(format=FORMAT, version=VERSION, jobs=count)
    yield "run", _run(tx, run)
    for facts in _devices(tx, run):
        yield "device", facts
    for environment in _environments(tx, run):
        yield "environment", environment
    for bundle in _bundles(tx, run):
        yield "bundle", bundle
    for build in _builds(tx, run):
        yield "build", build
    for accuracy in _accuracies(tx, run):
        yield "accuracy", accuracy
    for record in _jobs(tx, run):
        yield "job", record


def _run(tx: Connection, run: int) -> RunLine:
    row = tx.execute(select(schema.run).where(schema.run.c.id == run)).mappings().one()
    return record_of(
        {**row, "user": row["user_name"], "mode": Mode(row["mode"])}
        | {"kind": RunKind(row["kind"])},
        RunLine,
    )


def _devices(tx: Connection, run: int) -> list[DeviceFacts]:
    used = select(schema.job.c.device_id).where(schema.job.c.run_id == run)
    device = schema.device.c
    rows = tx.execute(select(device.facts).where(device.id.in_(used)).order_by(device.key))
    return [from_builtins(row.facts, DeviceFacts) for row in rows]


def _environments(tx: Connection, run: int) -> list[EnvironmentLine]:
    used = (
        select(schema.attempt.c.environment)
        .join(schema.job, schema.job.c.id == schema.attempt.c.job_id)
        .where(schema.job.c.run_id == run)
    )
    environment = schema.environment.c
    rows = tx.execute(
        select(environment.hash, environment.facts)
        .where(environment.hash.in_(used))
        .order_by(environment.hash)
    )
    return [
        EnvironmentLine(hash=row.hash, facts=from_builtins(row.facts, Environment)) for row in rows
    ]


def _bundles(tx: Connection, run: int) -> list[BundleLine]:
    used = select(schema.job.c.bundle).where(schema.job.c.run_id == run)
    bundle = schema.bundle.c
    query = select(schema.bundle).where(bundle.sha.in_(used)).order_by(bundle.sha)
    rows = tx.execute(query).mappings()
    return [BundleLine(**{**row, "made_of": tuple(row["made_of"])}) for row in rows]


def _builds(tx: Connection, run: int) -> list[Build]:
    used = select(schema.job.c.bundle).where(schema.job.c.run_id == run)
    build = schema.build.c
    rows = tx.execute(select(schema.build).where(build.sha.in_(used)).order_by(build.sha))
    return [from_builtins(dict(row), Build) for row in rows.mappings()]


def _accuracies(tx: Connection, run: int) -> list[AccuracyLine]:
    table = schema.accuracy
    columns = [column for column in table.c if column.name != "run_id"]
    query = select(*columns).where(table.c.run_id == run).order_by(table.c.position)
    return fetch(tx, query, AccuracyLine)


def _jobs(tx: Connection, run: int) -> Iterator[JobLine]:
    job = schema.job.c
    after = -1
    while (
        rows := tx.execute(
            select(
                schema.job,
                schema.device.c.key.label("device"),
                schema.kernel_case.c.name.label("case"),
            )
            .join(schema.device, schema.device.c.id == job.device_id)
            .join(schema.kernel_case, schema.kernel_case.c.id == job.case_id)
            .where(job.run_id == run, job.position > after)
            .order_by(job.position)
            .limit(PAGE)
        )
        .mappings()
        .all()
    ):
        ids = [row["id"] for row in rows]
        attempts = _by_job(tx, schema.attempt, ids, "token")
        verdicts = _by_job(tx, schema.verdict, ids, "token")
        timings = _by_job(tx, schema.measurement, ids, "metric", "side")
        statistics = _by_job(tx, schema.statistic, ids, "name")
        for row in rows:
            job_id = row["id"]
            line = _job(
                row, attempts.get(job_id, []), verdicts.get(job_id, []), timings.get(job_id, [])
            )
            told_rows = statistics.get(job_id, ())
            made = tuple(record_of({**told_row}, Statistic) for told_row in told_rows)
            yield replace(line, statistics=made) if made else line
        after = rows[-1]["position"]


def _by_job(
    tx: Connection, table: Table, ids: Sequence[int], *order: str
) -> dict[int, list[RowMapping]]:
    by_job: dict[int, list[RowMapping]] = {}
    rows = tx.execute(
        select(table)
        .where(table.c.job_id.in_(ids))
        .order_by(table.c.job_id, *(table.c[name] for name in order))
    )
    for row in rows.mappings():
        by_job.setdefault(row["job_id"], []).append(row)
    return by_job


def _job(
    row: RowMapping,
    attempts: Sequence[RowMapping],
    verdicts: Sequence[RowMapping],
    timings: Sequence[RowMapping],
) -> JobLine:
    state = JobState(row["state"])
    made = {
        "mode": Mode(row["mode"]),
        "arm_kind": ArmKind(row["arm_kind"]),
        "state": JobState.QUEUED if state in UNFINISHED else state,
        "attempts": tuple(map(_attempt, attempts)),
        "verdict": record_of({**verdicts[0]}, Verdict) if verdicts else None,
        "timings": tuple(map(_timing, timings)),
    }
    return record_of({**row, **made}, JobLine)


def _attempt(row: RowMapping) -> AttemptLine:
    return record_of({**row, "outcome": Outcome(row["outcome"])}, AttemptLine)


def _timing(row: RowMapping) -> Timing:
    texts = {
        "samples": base64.b64encode(row["samples"]).decode(),
        "warnings": tuple(row["warnings"]),
        "side": Side(row["side"]),
    }
    return record_of({**row, **texts}, Timing)
