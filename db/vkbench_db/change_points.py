"""Change points: made once for a place and a direction; their states only ever come on top.

    suspected ── confirming ── confirmed | dismissed | ambiguous

Each state is a row of `change_point_event`; the change point itself holds the last one. A dismissed
or ambiguous one may be confirmed later, when more results have come: that is one event more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select, tuple_, update

from vkbench_db import models
from vkbench_db.rows import insert_missing
from vkbench_db.series import Origin, origins

WRONG = "wrong"  # direction of results that became wrong; of times it is slower or faster


class Standing(StrEnum):
    """How far a change point is."""

    SUSPECTED = "suspected"
    CONFIRMING = "confirming"  # pairs are being measured
    CONFIRMED = "confirmed"
    DISMISSED = "dismissed"
    AMBIGUOUS = "ambiguous"  # measured again, and nothing was certain


UNDECIDED = (Standing.SUSPECTED, Standing.CONFIRMING)
DECIDED = (Standing.CONFIRMED, Standing.DISMISSED, Standing.AMBIGUOUS)


class Cause(StrEnum):
    """What moved with the change."""

    KERNEL = "kernel"
    ENVIRONMENT = "environment"  # the driver, or other software
    HOST = "host"  # neither of them
    UNKNOWN = "unknown"  # both


class Method(StrEnum):
    """What found it."""

    SCREEN = "screen"
    HISTORY = "history"
    BASELINE = "baseline"  # of a series too young for the screen
    VERDICT = "verdict"


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A change point to be."""

    series: int
    method: Method
    direction: str
    before_job: int  # the last good one
    after_job: int  # the first bad one
    ratio: float | None = None  # new over old
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What settles a change point."""

    state: Standing
    note: str
    cause: str = ""
    figures: dict[str, float | None] = field(default_factory=dict)  # ratio, low, high, p


def cause_of(before: Origin, after: Origin) -> Cause:
    """The cause that history alone suggests: whatever moved between two neighbours."""
    kernel = before.kernel != after.kernel
    environment = before.environment != after.environment
    if kernel and environment:
        return Cause.UNKNOWN
    if kernel:
        return Cause.KERNEL
    return Cause.ENVIRONMENT if environment else Cause.HOST


def suspect(tx: Connection, found: Sequence[Suspicion], now: float) -> list[int]:
    """Store suspicions that are not known yet; says the new ones' ids."""
    if not found:
        return []
    known = origins(tx, [job for each in found for job in (each.before_job, each.after_job)])
    before = _ids(tx, found)
    insert_missing(tx, models.ChangePoint, [_row(each, known, now) for each in found])
    made = {key: id for key, id in _ids(tx, found).items() if key not in before}
    events = [(made[_key(each)], each.note) for each in found if _key(each) in made]
    note(tx, dict(events), Standing.SUSPECTED, now)
    return sorted(made.values())


def settle(tx: Connection, change: int, finding: Finding, now: float) -> None:
    """Move a change point to the state that was found, with the event that says why."""
    values: dict[str, Any] = {"state": finding.state, **finding.figures}
    if finding.cause:
        values["cause"] = finding.cause
    table = models.ChangePoint
    tx.execute(update(table).where(table.id == change).values(**values))
    note(tx, {change: finding.note}, finding.state, now)


def move(tx: Connection, change: int, before_job: int, after_job: int, now: float) -> None:
    """Say more exactly where a suspected change lies; the event keeps where it was before."""
    table = models.ChangePoint
    old = tx.execute(
        select(table.before_job, table.after_job, table.state).where(table.id == change)
    ).one()
    if (old.before_job, old.after_job) == (before_job, after_job):
        return
    known = origins(tx, [before_job, after_job])
    places = _places(before_job, after_job, known)
    tx.execute(update(table).where(table.id == change).values(**places))
    text = f"it began with job {after_job}, not with {old.after_job} as first seen"
    note(tx, {change: text}, Standing(old.state), now)


def note(tx: Connection, notes: dict[int, str], state: Standing, now: float) -> None:
    """Add an event to each change point."""
    rows = [
        {"change_point_id": change, "at": now, "state": state, "note": text}
        for change, text in notes.items()
    ]
    if rows:
        tx.execute(insert(models.ChangePointEvent), rows)


def undecided(tx: Connection, series: Iterable[int]) -> set[tuple[int, str]]:
    """Series and directions that somebody already suspects."""
    table = models.ChangePoint
    rows = tx.execute(
        select(table.series_id, table.direction).where(
            table.series_id.in_(set(series)), table.state.in_(UNDECIDED)
        )
    )
    return {(row.series_id, row.direction) for row in rows}


def _key(each: Suspicion) -> tuple[int, int, str]:
    return each.series, each.after_job, str(each.direction)


def _ids(tx: Connection, found: Sequence[Suspicion]) -> dict[tuple[int, int, str], int]:
    table = models.ChangePoint
    rows = tx.execute(
        select(table.id, table.series_id, table.after_job, table.direction).where(
            tuple_(table.series_id, table.after_job).in_(
                {(each.series, each.after_job) for each in found}
            )
        )
    )
    return {(row.series_id, row.after_job, row.direction): row.id for row in rows}


def _row(each: Suspicion, known: dict[int, Origin], now: float) -> dict[str, Any]:
    return {
        "series_id": each.series,
        "method": each.method,
        "direction": each.direction,
        **_places(each.before_job, each.after_job, known),
        "found_at": now,
        "ratio": each.ratio,
        "state": Standing.SUSPECTED,
        "cause": "",
    }


def _places(before_job: int, after_job: int, known: dict[int, Origin]) -> dict[str, Any]:
    values: dict[str, Any] = {"before_job": before_job, "after_job": after_job}
    for side, job in (("before", before_job), ("after", after_job)):
        origin = asdict(known.get(job, Origin()))
        values |= {f"{side}_{name}": value for name, value in origin.items()}
    return values
