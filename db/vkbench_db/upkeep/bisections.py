"""Bisections: their ordered bundles, the result of each step, and the outcome.

The rows hold all of their state: after a kill another process goes on from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, update

from vkbench.errors import UnknownName
from vkbench.job import Arm, ArmKind
from vkbench_db import schema
from vkbench_db.rows import record_of

RUNNING, FOUND, FAILED = "running", "found", "failed"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A bundle or a build in the order of a bisection."""

    sha: str  # "" where there is none: it does not compile, or its turn to be made has not come
    label: str  # a revision and its subject, or what the bundle or the build is called
    note: str = ""  # why there is none
    kind: str = ArmKind.BUNDLE
    revision: str = ""  # hash of the commit that it is made of when its turn comes

    @property
    def is_made(self) -> bool:
        """Whether there is one, or it is known why there is none."""
        return bool(self.sha or self.note)

    @property
    def arm(self) -> Arm:
        """What it is to be timed as."""
        return Arm(name=self.sha, kind=ArmKind(self.kind))


@dataclass(frozen=True, kw_only=True)
class BisectionStep:
    """A comparison of one bundle with the good one."""

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
class Source:
    """Where the candidates of a bisection are made: on this machine, from a git repository."""

    repository: str
    program: str = ""  # whose builds they are
    driver: str = ""  # whose revisions they are, as its file calls it, where they are drivers

    @property
    def kind(self) -> ArmKind:
        """What the candidates are."""
        return ArmKind.DRIVER if self.driver else ArmKind.BUILD


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """A search for the first bad bundle in an ordered list."""

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
    steps: tuple[BisectionStep, ...]  # by position
    source: Source | None = None  # of candidates that are made when their turn comes
    newest_first: bool = False  # whether the good one is the newest: what mended it is looked for

    def step_of(self, place: int) -> BisectionStep | None:
        """The step that compared a candidate, or another one of the same files."""
        sha = self.candidates[place].sha
        steps = [step for step in self.steps if step.position == place]
        steps += [step for step in self.steps if sha and self.candidates[step.position].sha == sha]
        return steps[0] if steps else None


@dataclass(frozen=True, kw_only=True)
class NewBisection:
    """A bisection to be stored: what it times, the candidates, and who asks for it."""

    devices: Sequence[str]  # keys
    case: str
    variant: str
    metric: str
    measure_seconds: float  # of each arm of a pair
    candidates: Sequence[Candidate]  # the good one first, the bad one last
    user: str
    regression: int | None = None
    source: Source | None = None
    newest_first: bool = False  # whether the good one is the newest


def create(tx: Connection, new: NewBisection, now: float) -> int:
    """Store a new bisection; return its number."""
    row = {
        "created_at": now,
        "user_name": new.user,
        "regression_id": new.regression,
        "devices": {"keys": list(new.devices)},
        "case_name": new.case,
        "variant": new.variant,
        "metric": new.metric,
        "measure_seconds": new.measure_seconds,
        "bundles": _candidates_column(new),
        "state": RUNNING,
        "low": 0,
        "high": len(new.candidates) - 1,
        "note": "",
    }
    made = insert(schema.bisection).values(**row).returning(schema.bisection.c.id)
    return int(tx.execute(made).scalar_one())


def running(tx: Connection) -> list[int]:
    """The numbers of running bisections, oldest first."""
    table = schema.bisection.c
    return list(
        tx.execute(select(table.id).where(table.state == RUNNING).order_by(table.id)).scalars()
    )


def take(tx: Connection, bisection: int) -> Bisection | None:
    """Lock a running bisection until this transaction ends; None if another transaction has it."""
    table = schema.bisection.c
    query = select(schema.bisection).where(table.id == bisection, table.state == RUNNING)
    taken = _bisections(tx, query.with_for_update(skip_locked=True))
    return taken[0] if taken else None


def find(tx: Connection, bisection: int) -> Bisection:
    """The bisection of this number; UnknownName if there is none."""
    table = schema.bisection.c
    matches = _bisections(tx, select(schema.bisection).where(table.id == bisection))
    if not matches:
        newest = tx.execute(select(func.max(table.id))).scalar()
        raise UnknownName("bisection", str(bisection), (str(newest),) if newest else ())
    return matches[0]


def list_bisections(tx: Connection, limit: int | None = 50) -> list[Bisection]:
    """List bisections, the newest first."""
    table = schema.bisection.c
    return _bisections(tx, select(schema.bisection).order_by(table.id.desc()).limit(limit))


def of_regression(tx: Connection, regression: int) -> list[Bisection]:
    """The bisections that look for the cause of a regression, newest first."""
    table = schema.bisection.c
    query = select(schema.bisection).where(table.regression_id == regression)
    return _bisections(tx, query.order_by(table.id.desc()))


def add_step(
    tx: Connection, bisection: int, position: int, run: int, pairs: int, now: float
) -> None:
    """Store that a bundle is being compared with the good one."""
    row = {
        "bisection_id": bisection,
        "position": position,
        "run_id": run,
        "created_at": now,
        "pairs": pairs,
        "verdict": "",
        "note": "",
    }
    tx.execute(insert(schema.bisection_step).values(**row))


def change_step(tx: Connection, bisection: int, position: int, **values: Any) -> None:
    """Set columns of a step."""
    step = schema.bisection_step.c
    where = (step.bisection_id == bisection, step.position == position)
    tx.execute(update(schema.bisection_step).where(*where).values(**values))


def change(tx: Connection, bisection: int, **values: Any) -> None:
    """Set columns of a bisection."""
    tx.execute(update(schema.bisection).where(schema.bisection.c.id == bisection).values(**values))


def change_candidate(
    tx: Connection, bisection: int, position: int, *, sha: str = "", note: str = ""
) -> None:
    """Store what was made of a candidate, or why nothing was."""
    known = find(tx, bisection)
    candidates = list(known.candidates)
    candidates[position] = replace(candidates[position], sha=sha, note=note)
    changed = replace(known, candidates=tuple(candidates))
    change(tx, bisection, bundles=_candidates_column(changed))


def _candidates_column(searched: Bisection | NewBisection) -> dict[str, Any]:
    column: dict[str, Any] = {"bundles": [asdict(candidate) for candidate in searched.candidates]}
    if searched.source:
        column["source"] = asdict(searched.source)
    if searched.newest_first:
        column["newest_first"] = True
    return column


def kinds(tx: Connection, devices: Sequence[str]) -> set[tuple[str, ...]]:
    """Kinds of these devices (name, driver, clock policy): a bisection needs a single kind."""
    device, environment = schema.device.c, schema.environment.c
    rows = tx.execute(
        select(device.name, environment.driver, environment.driver_version, environment.facts)
        .outerjoin(schema.environment, environment.hash == device.environment)
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
    """The bundles stored from one up to another, in the order of their storing."""
    bundle, link = schema.bundle.c, schema.bundle_blob.c
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


def _bisections(tx: Connection, query: Select[*tuple[Any, ...]]) -> list[Bisection]:
    rows = tx.execute(query).mappings().all()
    steps = _steps(tx, [row["id"] for row in rows])
    return [
        record_of(
            {
                **row,
                "user": row["user_name"],
                "regression": row["regression_id"],
                "devices": tuple(row["devices"]["keys"]),
                "case": row["case_name"],
                "candidates": tuple(
                    Candidate(**candidate) for candidate in row["bundles"]["bundles"]
                ),
                "steps": tuple(steps.get(row["id"], ())),
                "source": Source(**row["bundles"]["source"])
                if "source" in row["bundles"]
                else None,
                "newest_first": row["bundles"].get("newest_first", False),
            },
            Bisection,
        )
        for row in rows
    ]


def _steps(tx: Connection, bisections: Sequence[int]) -> dict[int, list[BisectionStep]]:
    step = schema.bisection_step.c
    rows = tx.execute(
        select(schema.bisection_step)
        .where(step.bisection_id.in_(bisections))
        .order_by(step.bisection_id, step.position)
    ).mappings()
    by_bisection: dict[int, list[BisectionStep]] = {}
    for row in rows:
        of_bisection = by_bisection.setdefault(row["bisection_id"], [])
        of_bisection.append(record_of({**row, "run": row["run_id"]}, BisectionStep))
    return by_bisection
