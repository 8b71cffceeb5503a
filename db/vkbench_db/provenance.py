"""What made results: the code, the bundle and the driver, asked for once it matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench_db.batches import batches
from vkbench_db.views import ATTEMPT, ENVIRONMENT, JOB


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What made a result."""

    variant: str  # code path that ran
    kernel_sha: str
    bundle: str
    environment: str
    driver: str
    driver_version: str


def provenances(tx: Connection, jobs: Iterable[int]) -> dict[int, Provenance]:
    """What made the results of jobs, where something ran."""
    attempt, environment = ATTEMPT.c, ENVIRONMENT.c
    found: dict[int, Provenance] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(
                *(JOB.c.id, attempt.variant, attempt.kernel_sha, attempt.bundle),
                *(attempt.environment, environment.driver, environment.driver_version),
            )
            .select_from(JOB)
            .join(ATTEMPT, (attempt.job_id == JOB.c.id) & (attempt.token == JOB.c.settled_token))
            .outerjoin(ENVIRONMENT, environment.hash == attempt.environment)
            .where(JOB.c.id.in_(page))
        )
        for job, *fields in rows:
            names = ("variant", "kernel_sha", "bundle", "environment", "driver", "driver_version")
            found[job] = Provenance(
                **{name: value or "" for name, value in zip(names, fields, strict=True)}
            )
    return found
