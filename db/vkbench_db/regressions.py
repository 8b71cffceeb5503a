"""Regressions: confirmed changes of one cause, and how far people are with them.

    open ── acknowledged ── fixed ── verified      closed, from any of them

They are made from confirmed change points and never taken apart; each step is a row of
`regression_event`. `recoveries` moves them to fixed and verified, people do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from sqlalchemy import Connection, insert, or_, select, update

from vkbench import names
from vkbench.errors import UnknownName, UsageError
from vkbench.units import counted
from vkbench_db import models
from vkbench_db.change_points import DECIDED, Finding, Standing, settle
from vkbench_db.database import watch_alone
from vkbench_db.grouping import AnyRow, Group, environment_facts, group_of, ungrouped
from vkbench_db.statistics.discoveries import believed

BATCH_SECONDS = 86_400.0  # tests of so long are one batch, of which few may be chance


class Stage(StrEnum):
    """How far a regression is."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # somebody deals with it
    FIXED = "fixed"  # times or verdicts are back
    VERIFIED = "verified"  # and stay so
    CLOSED = "closed"


UNSETTLED = (Stage.OPEN, Stage.ACKNOWLEDGED)
JOINED = (*UNSETTLED, Stage.FIXED)  # a change of the same key belongs to these


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """What became of confirmed changes."""

    opened: tuple[int, ...] = ()  # regressions
    joined: tuple[int, ...] = ()
    doubted: int = 0  # changes that are chance, as many as were tested


def group(tx: Connection, now: float) -> Grouped:
    """Give each confirmed change its regression, a new one or one that is open."""
    watch_alone(tx)
    changes = ungrouped(tx)
    if not changes:
        return Grouped()
    kept = _believed(tx, changes, now)
    hashes = {getattr(each, f"{side}_environment") for each in kept for side in ("before", "after")}
    facts = environment_facts(tx, hashes)
    groups = {each.id: group_of(each, facts) for each in kept}
    kept = sorted(kept, key=lambda each: (groups[each.id].key, each.id))
    opened, joined = [], []
    for _, members in groupby(kept, key=lambda each: groups[each.id].key):
        together = list(members)
        found = groups[together[0].id]
        known = _joinable(tx, found.key)
        if known is None:
            opened.append(_open(tx, found, together, now))
        else:
            _join(tx, known, together, now)
            joined.append(known.id)
    return Grouped(opened=tuple(opened), joined=tuple(joined), doubted=len(changes) - len(kept))


def move(
    tx: Connection, regression: int, stage: Stage, now: float, *, user: str = "", note: str = ""
) -> None:
    """Take a regression to a stage; UsageError where it cannot go there from where it is."""
    table = models.Regression
    row = tx.execute(
        select(table.state, table.owner).where(table.id == regression).with_for_update()
    ).first()
    if row is None:
        known = tx.execute(select(table.id).order_by(table.id.desc()).limit(100)).scalars()
        near = names.nearest(str(regression), [str(number) for number in known])
        raise UnknownName("regression", str(regression), near)
    if row.state == stage:
        raise UsageError(f"regression {regression} is {stage} already")
    if row.state not in _FROM[stage]:
        raise UsageError(f"regression {regression} is {row.state}: it cannot become {stage}")
    values = {"state": stage, "changed_at": now}
    if stage == Stage.ACKNOWLEDGED:
        values["owner"] = user
    tx.execute(update(table).where(table.id == regression).values(**values))
    note_event(tx, regression, stage, now, user=user, note=note)


def note_event(
    tx: Connection, regression: int, stage: str, now: float, *, user: str = "", note: str = ""
) -> None:
    """Add a step to a regression's history."""
    row = {
        "regression_id": regression,
        "at": now,
        "state": stage,
        "user_name": user,
        "note": note,
    }
    tx.execute(insert(models.RegressionEvent), [row])


_ANY = frozenset(Stage)
_FROM: Mapping[Stage, frozenset[Stage]] = {
    Stage.OPEN: _ANY - {Stage.OPEN},
    Stage.ACKNOWLEDGED: frozenset((Stage.OPEN,)),
    Stage.FIXED: frozenset(UNSETTLED),
    Stage.VERIFIED: frozenset((Stage.FIXED,)),
    Stage.CLOSED: _ANY - {Stage.CLOSED},
}


def _believed(tx: Connection, changes: Sequence[AnyRow], now: float) -> list[AnyRow]:
    """The changes without those that so many tests bring by chance (Benjamini and Hochberg)."""
    tested = [each for each in changes if each.p is not None]
    others = _other_tests(tx, {each.id for each in tested}, now)
    answers = believed([each.p for each in tested] + others)[: len(tested)]
    chance = {each.id for each, is_real in zip(tested, answers, strict=True) if not is_real}
    for change in chance:
        text = f"of {len(tested) + len(others)} tests some are as clear by chance alone"
        settle(tx, change, Finding(state=Standing.AMBIGUOUS, note=text), now)
    return [each for each in changes if each.id not in chance]


def _other_tests(tx: Connection, changes: set[int], now: float) -> list[float]:
    """p of whatever else was decided lately, for or against."""
    change, event = models.ChangePoint, models.ChangePointEvent
    lately = (
        select(event.change_point_id)
        .where(event.at >= now - BATCH_SECONDS, event.state.in_(DECIDED))
        .distinct()
    )
    rows = tx.execute(
        select(change.id, change.p).where(change.id.in_(lately), change.p.is_not(None))
    )
    return [row.p for row in rows if row.id not in changes and row.p is not None]


def _joinable(tx: Connection, key: str) -> AnyRow | None:
    table = models.Regression
    return tx.execute(
        select(table.__table__)
        .where(
            # an older vkbench put the family of kernels at the end of its keys
            or_(table.group_key == key, table.group_key.startswith(f"{key}|", autoescape=True)),
            table.state.in_(JOINED),
        )
        .order_by(table.id.desc())
        .limit(1)
    ).first()


def _open(tx: Connection, found: Group, members: Sequence[AnyRow], now: float) -> int:
    row = {
        "group_key": found.key,
        "direction": members[0].direction,
        "cause": members[0].cause,
        "title": found.title,
        "state": Stage.OPEN,
        "opened_at": now,
        "changed_at": now,
    }
    made = tx.execute(insert(models.Regression).returning(models.Regression.id), [row]).scalar_one()
    _add(tx, made, members)
    note_event(tx, made, Stage.OPEN, now, note=_counted(members))
    return made


def _join(tx: Connection, known: AnyRow, members: Sequence[AnyRow], now: float) -> None:
    stage = Stage.OPEN if known.state == Stage.FIXED else Stage(known.state)
    table = models.Regression
    tx.execute(update(table).where(table.id == known.id).values(state=stage, changed_at=now))
    _add(tx, known.id, members)
    note_event(tx, known.id, stage, now, note=f"{_counted(members)} more")


def _add(tx: Connection, regression: int, members: Sequence[AnyRow]) -> None:
    rows = [{"change_point_id": each.id, "regression_id": regression} for each in members]
    tx.execute(insert(models.RegressionMember), rows)


def _counted(members: Sequence[AnyRow]) -> str:
    kernels = counted(len({each.family for each in members}), "kernel")
    devices = counted(len({each.device for each in members}), "device")
    return f"{len(members)} series of {kernels} on {devices}"
