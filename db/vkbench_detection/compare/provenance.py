"""The code, bundle and driver that produced results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.batches import batches


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The code, bundle and driver that produced a result."""

    variant: str  # code path that ran
    kernel_sha: str
    bundle: str
    environment: str
    driver: str
    driver_version: str


def provenances(tx: Connection, jobs: Iterable[int]) -> dict[int, Provenance]:
    """The provenance of each job's result; a job where nothing ran has none."""
    attempt, environment = schema.attempt.c, schema.environment.c
    by_job: dict[int, Provenance] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(
                *(schema.job.c.id, attempt.variant, attempt.kernel_sha, attempt.bundle),
                *(attempt.environment, environment.driver, environment.driver_version),
            )
            .select_from(schema.job)
            .join(
                schema.attempt,
                schema.is_settling,
            )
            .outerjoin(schema.environment, environment.hash == attempt.environment)
            .where(schema.job.c.id.in_(page))
        )
        for job, *fields in rows:
            names = ("variant", "kernel_sha", "bundle", "environment", "driver", "driver_version")
            by_job[job] = Provenance(
                **{name: value or "" for name, value in zip(names, fields, strict=True)}
            )
    return by_job
