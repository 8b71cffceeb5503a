"""Bisections: ordered bundles, what was found of each, and what came of it.

The rows are all there is: whoever goes on with one after a kill needs nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from vkbench.errors import UnknownName
from vkbench_db import models

RUNNING, FOUND, FAILED = "running", "found", "failed"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One of the ordered bundles."""

    sha: str  # "" where there is none: it does not compile
    label: str  # a revision and its subject, or what the bundle is called
    note: str = ""  # why there is none


@dataclass(frozen=True, kw_only=True)
class Step:
    """One bundle held against the good one."""

    position: int
    run: int
    created_at: float
    finished_at: float | None
    pairs: int  # asked for
    ratio: float | None  # new over old
    low: float | None
    high: float | None
    p: float | None
    verdict: str  # good | bad | wrong | ambiguous; "" while it runs
    note: str


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """A search for the first bad one of ordered bundles."""

    id: int
    created_at: float
    user: str
    regression: int | None
    devices: tuple[str, ...]  # keys
    case: str
    variant: str
    metric: str
    measure_seconds: float  # of each arm of a pair
    candidates: tuple[Candidate, ...]  # the good one first, the bad one last
    state: str  # running | found | failed
    low: int  # position of the last good one
    high: int  # position of the first bad one
    finished_at: float | None
    note: str  # what came of it
    steps: tuple[Step, ...]  # by position


def create(
    tx: Connection,
    *,
    devices: Sequence[str],
    case: str,
    variant: str,
    metric: str,
    measure_seconds: float,
    candidates: Sequence[Candidate],
    user: str,
    now: float,
    regression: int | None = None,
) -> int:
    """A bisection that has not begun; its number."""
    row = {
        "created_at": now,
        "user_name": user,
        "regression_id": regression,
        "devices": {"keys": list(devices)},
        "case_name": case,
        "variant": variant,
        "metric": metric,
        "measure_seconds": measure_seconds,
        "bundles": {
            "bundles": [
                {"sha": each.sha, "label": each.label, "note": each.note} for each in candidates
            ]
        },
        "state": RUNNING,
        "low": 0,
        "high": len(candidates) - 1,
        "note": "",
    }
    made = insert(models.Bisection).values(**row).returning(models.Bisection.id)
    return int(tx.execute(made).scalar_one())


def running(tx: Connection) -> list[int]:
    """The bisections that are not over, oldest first."""
    table = models.Bisection
    return list(
        tx.execute(select(table.id).where(table.state == RUNNING).order_by(table.id)).scalars()
    )


def take(tx: Connection, bisection: int) -> Bisection | None:
    """A running bisection for as long as this transaction lasts; None if another has it."""
    table = models.Bisection
    asked = select(table.__table__).where(table.id == bisection, table.state == RUNNING)
    row = tx.execute(asked.with_for_update(skip_locked=True)).first()
    return None if row is None else _bisection(row, _steps(tx, [bisection]))


def find(tx: Connection, bisection: int) -> Bisection:
    """A bisection by its number."""
    table = models.Bisection
    row = tx.execute(select(table.__table__).where(table.id == bisection)).first()
    if row is None:
        newest = tx.execute(select(func.max(table.id))).scalar()
        raise UnknownName("bisection", str(bisection), (str(newest),) if newest else ())
    return _bisection(row, _steps(tx, [bisection]))


def listed(tx: Connection, limit: int | None = 50) -> list[Bisection]:
    """Bisections, newest first."""
    table = models.Bisection
    rows = tx.execute(select(table.__table__).order_by(table.id.desc()).limit(limit)).all()
    steps = _steps(tx, [row.id for row in rows])
    return [_bisection(row, steps) for row in rows]


def add_step(
    tx: Connection, bisection: int, position: int, run: int, pairs: int, now: float
) -> None:
    """Note that a bundle is being held against the good one."""
    row = {
        "bisection_id": bisection,
        "position": position,
        "run_id": run,
        "created_at": now,
        "pairs": pairs,
        "verdict": "",
        "note": "",
    }
    tx.execute(insert(models.BisectionStep).values(**row))


def change_step(tx: Connection, bisection: int, position: int, **values: Any) -> None:
    """Set columns of a step."""
    step = models.BisectionStep
    where = (step.bisection_id == bisection, step.position == position)
    tx.execute(update(step).where(*where).values(**values))


def change(tx: Connection, bisection: int, **values: Any) -> None:
    """Set columns of a bisection."""
    tx.execute(update(models.Bisection).where(models.Bisection.id == bisection).values(**values))


def kinds(tx: Connection, devices: Sequence[str]) -> set[tuple[str, ...]]:
    """What devices are: those of one kind are one in what a bisection asks of them."""
    device, environment = models.Device, models.Environment
    rows = tx.execute(
        select(device.name, environment.driver, environment.driver_version, environment.facts)
        .outerjoin(environment, environment.hash == device.environment)
        .where(device.key.in_(devices))
    )
    return {
        (
            row.name,
            row.driver or "",
            row.driver_version or "",
            (row.facts or {}).get("clock_policy", ""),
        )
        for row in rows
    }


def bundles_between(tx: Connection, first: str, last: str) -> list[str]:
    """The bundles that came into the database after one and up to another, in that order."""
    bundle, link = models.Bundle, models.BundleBlob
    came = {
        row.sha: row.created_at
        for row in tx.execute(
            select(bundle.sha, bundle.created_at).where(bundle.sha.in_((first, last)))
        )
    }
    if len(came) < 2:
        return [first, last]
    rows = tx.execute(
        select(bundle.sha)
        .where(
            bundle.created_at > came[first],
            bundle.created_at < came[last],
            bundle.sha.in_(select(link.bundle)),  # an import brings manifests alone
        )
        .order_by(bundle.created_at, bundle.sha)
    )
    return [first, *rows.scalars(), last]


def _steps(tx: Connection, bisections: Sequence[int]) -> dict[int, list[Step]]:
    step = models.BisectionStep
    rows = tx.execute(
        select(step.__table__)
        .where(step.bisection_id.in_(bisections))
        .order_by(step.bisection_id, step.position)
    )
    found: dict[int, list[Step]] = {}
    for row in rows:
        found.setdefault(row.bisection_id, []).append(
            Step(
                position=row.position,
                run=row.run_id,
                created_at=row.created_at,
                finished_at=row.finished_at,
                pairs=row.pairs,
                ratio=row.ratio,
                low=row.low,
                high=row.high,
                p=row.p,
                verdict=row.verdict,
                note=row.note,
            )
        )
    return found


def _bisection(row: Row[Any], steps: dict[int, list[Step]]) -> Bisection:
    return Bisection(
        id=row.id,
        created_at=row.created_at,
        user=row.user_name,
        regression=row.regression_id,
        devices=tuple(row.devices["keys"]),
        case=row.case_name,
        variant=row.variant,
        metric=row.metric,
        measure_seconds=row.measure_seconds,
        candidates=tuple(Candidate(**each) for each in row.bundles["bundles"]),
        state=row.state,
        low=row.low,
        high=row.high,
        finished_at=row.finished_at,
        note=row.note,
        steps=tuple(steps.get(row.id, ())),
    )
