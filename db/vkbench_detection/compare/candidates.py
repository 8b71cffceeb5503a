"""What people may name as a side: recent runs, bundles, builds, drivers, devices, baselines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from vkbench.run import COMPARED
from vkbench_db import schema
from vkbench_db.ask.devices.names import named_devices
from vkbench_db.work.builds import names_of_builds
from vkbench_detection.compare.baselines import baselines

RUNS = 40  # the newest
SHA_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Something that `references.find` finds."""

    asked: str  # "3", "bundle:4f1c", "driver:580.82"
    words: str  # what it is, for people


def candidates(tx: Connection) -> list[Candidate]:
    """Runs first, the newest first."""
    runs, bundles = _runs(tx)
    pinned = [
        Candidate(
            asked=baseline.name, words=f"baseline, {baseline.kind} {baseline.value[:SHA_SHOWN]}"
        )
        for baseline in baselines(tx)
    ]
    return [*runs, *pinned, *bundles, *_drivers(tx), *_devices(tx)]


def _runs(tx: Connection) -> tuple[list[Candidate], list[Candidate]]:
    """Recent runs, and the bundles and builds that the newest job of each ran."""
    run, job, attempt = schema.run.c, schema.job.c, schema.attempt.c
    bundle = (
        select(attempt.bundle)
        .select_from(schema.job)
        .join(schema.attempt, schema.is_settling)
        .where(job.run_id == run.id, job.finished_at.is_not(None))
        .order_by(job.finished_at.desc(), job.id.desc())
        .limit(1)
        .correlate(schema.run)
        .scalar_subquery()
        .label("bundle")
    )
    rows = tx.execute(
        select(run.id, run.label, run.created_at, bundle)
        .where(schema.run.c.kind.in_(COMPARED))
        .order_by(run.created_at.desc(), run.id.desc())
        .limit(RUNS)
    ).all()
    runs = [
        Candidate(asked=str(row.id), words=f"run {row.label} of {_day(row.created_at)}".strip())
        for row in rows
    ]
    newest: dict[str, str] = {}
    for row in rows:
        if row.bundle:
            newest.setdefault(row.bundle, _day(row.created_at))
    builds = names_of_builds(tx)
    return runs, [
        Candidate(asked=f"build:{builds[sha] or sha[:SHA_SHOWN]}", words=f"build, last ran {day}")
        if sha in builds
        else Candidate(asked=f"bundle:{sha[:SHA_SHOWN]}", words=f"bundle, last ran {day}")
        for sha, day in newest.items()
    ]


def _drivers(tx: Connection) -> list[Candidate]:
    environment = schema.environment.c
    rows = tx.execute(
        select(environment.driver, environment.driver_version)
        .distinct()
        .order_by(environment.driver, environment.driver_version)
    )
    return [Candidate(asked=f"driver:{version}", words=driver) for driver, version in rows]


def _devices(tx: Connection) -> list[Candidate]:
    return [
        Candidate(asked=f"device:{device.key}", words=f"{device.name} of {device.host}")
        for device in named_devices(tx)
    ]


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
