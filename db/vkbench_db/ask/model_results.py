"""What jobs of whole models tell beside their rows: sizes, memory, samples, software."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from vkbench.case import MODEL
from vkbench.result import HOT
from vkbench_db import schema
from vkbench_db.ask.timings import is_our_time, unpack_stored
from vkbench_db.batches import batches


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """What settled one job of a whole model."""

    job: int
    case_name: str
    path: str  # of the file on the host that ran it; "" of a seeded model
    bundle: str  # SHA-256 of the bundle that ran, the packaged one's too
    telemetry: Mapping[str, Any]
    environment: Mapping[str, Any]  # vkbench.device.Environment
    samples: Sequence[float]  # seconds, hot; none of a check


def model_names(tx: Connection) -> list[str]:
    """The whole models that cases are of: names with hashes."""
    case = schema.kernel_case.c
    query = select(case.format).where(case.kernel == MODEL).distinct().order_by(case.format)
    return list(tx.execute(query).scalars())


def model_results(tx: Connection, jobs: Sequence[int]) -> dict[int, ModelResult]:
    """Results by job, of those of these jobs that ran a whole model and were decided."""
    return {found.job: found for batch in batches(jobs) for found in _of(tx, batch)}


def _of(tx: Connection, jobs: Sequence[int]) -> Iterator[ModelResult]:
    job, case, attempt = schema.job.c, schema.kernel_case.c, schema.attempt.c
    timing, environment = schema.measurement.c, schema.environment.c
    query = (
        select(
            *(job.id, case.name, job.source, attempt.bundle, attempt.telemetry),
            *(timing.samples,),
            environment.facts,
        )
        .join(schema.kernel_case, case.id == job.case_id)
        .join(schema.attempt, schema.is_settling)
        .outerjoin(schema.measurement, is_our_time(job.id, HOT))
        .outerjoin(schema.environment, environment.hash == attempt.environment)
        .where(job.id.in_(jobs), case.kernel == MODEL)
        .order_by(job.id)
    )
    for row in tx.execute(query):
        yield ModelResult(
            job=row.id,
            case_name=row.name,
            path=(row.source or {}).get("path", ""),
            bundle=row.bundle,
            telemetry=row.telemetry,
            environment=row.facts or {},
            samples=unpack_stored(row.samples) if row.samples else [],
        )
