"""The code, bundle and driver that produced results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from typing import Any, Final

from sqlalchemy import Connection, select

from vkbench.device import DRIVER_SHA
from vkbench_db import schema
from vkbench_db.ask.devices.environments import read_facts
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
    driver_sha: str  # of the files of one that a user added
    software: Mapping[str, Any] = field(default_factory=dict)  # facts of the environment


_NAMES: Final = tuple(item.name for item in fields_of(Provenance) if item.name != "software")


def provenances(tx: Connection, jobs: Iterable[int]) -> dict[int, Provenance]:
    """The provenance of each job's result; a job where nothing ran has none."""
    attempt, environment = schema.attempt.c, schema.environment.c
    by_job: dict[int, Provenance] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(
                *(schema.job.c.id, attempt.variant, attempt.kernel_sha, attempt.bundle),
                *(attempt.environment, environment.driver, environment.driver_version),
                environment.facts["extra"][DRIVER_SHA].as_string(),
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
            named: dict[str, Any] = dict(zip(_NAMES, (one or "" for one in fields), strict=True))
            by_job[job] = Provenance(**named)
    facts = read_facts(tx, {made.environment for made in by_job.values()})
    return {
        job: replace(made, software=facts.get(made.environment, {})) for job, made in by_job.items()
    }
