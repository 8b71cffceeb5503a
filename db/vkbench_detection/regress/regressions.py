"""Regressions: confirmed changes of one cause, and the only code that writes them.

They are made from confirmed change points and never taken apart; each step is a row of
`regression_event`. `recoveries` moves them to fixed and verified, people do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection, Select, func, insert, or_, select, update

from vkbench.errors import UnknownName, UsageError
from vkbench.words import names
from vkbench.words.units import count_of
from vkbench_db import schema
from vkbench_db.ask.devices.environments import read_facts
from vkbench_db.database import watch_alone
from vkbench_db.rows import fetch, fetch_first
from vkbench_detection.regress.grouping import (
    Group,
    Member,
    Ungrouped,
    group_of,
    ungrouped_changes,
)
from vkbench_detection.regress.stages import (
    AGAIN,
    GROWN,
    JOINED,
    REACHED_FROM,
    RegressionStage,
)

NOTE, OWNER = "note", "owner"  # events of people that leave the stage as it is
MOST_NAMED = 5  # devices, or kernels, that are new to a regression


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """What became of confirmed changes when they were grouped."""

    opened: tuple[int, ...] = ()  # regressions
    joined: tuple[int, ...] = ()


def group(tx: Connection, now: float) -> Grouped:
    """Give each confirmed change its regression, a new one or one that is open."""
    watch_alone(tx)
    changes = ungrouped_changes(tx)
    if not changes:
        return Grouped()
    befores = {change.before_environment for change in changes}
    facts = read_facts(tx, befores | {change.after_environment for change in changes})
    groups = {change.id: group_of(change, facts) for change in changes}
    changes = sorted(changes, key=lambda change: (groups[change.id].key, change.id))
    opened, joined = [], []
    for _, members in groupby(changes, key=lambda change: groups[change.id].key):
        together = list(members)
        group_of_first = groups[together[0].id]
        known = _joinable(tx, group_of_first.key)
        if known is None:
            opened.append(_open(tx, group_of_first, together, now))
        else:
            _join(tx, known, group_of_first, together, now)
            joined.append(known.id)
    return Grouped(opened=tuple(opened), joined=tuple(joined))


def move(
    tx: Connection,
    regression: int,
    stage: RegressionStage,
    now: float,
    *,
    user: str = "",
    note: str = "",
) -> None:
    """Move a regression to a stage; UsageError where its own stage does not lead there."""
    table = schema.regression.c
    state = _require(tx, regression)
    if state == stage:
        raise UsageError(f"regression {regression} is {stage} already")
    if state not in REACHED_FROM[stage]:
        raise UsageError(f"regression {regression} is {state}: it cannot become {stage}")
    values: dict[str, object] = {"state": stage, "changed_at": now}
    if stage == RegressionStage.ACKNOWLEDGED:
        values["owner"] = user
    tx.execute(update(schema.regression).where(table.id == regression).values(**values))
    note_event(tx, regression, stage, now, user=user, note=note)


def annotate(tx: Connection, regression: int, now: float, *, user: str, note: str) -> None:
    """Add a person's note to a regression's history."""
    _require(tx, regression)
    note_event(tx, regression, NOTE, now, user=user, note=note)


def assign(tx: Connection, regression: int, owner: str, now: float, *, user: str) -> None:
    """Set the owner of a regression; "" leaves it without one."""
    _require(tx, regression)
    table = schema.regression.c
    tx.execute(update(schema.regression).where(table.id == regression).values(owner=owner))
    note_event(tx, regression, OWNER, now, user=user, note=owner or "nobody")


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
    tx.execute(insert(schema.regression_event), [row])


def _require(tx: Connection, regression: int) -> str:
    """Lock a regression and return its state; UnknownName if there is none of this number."""
    table = schema.regression.c
    state = tx.execute(select(table.state).where(table.id == regression).with_for_update()).scalar()
    if state is None:
        known = tx.execute(select(table.id).order_by(table.id.desc()).limit(100)).scalars()
        near = names.nearest(str(regression), [str(number) for number in known])
        raise UnknownName("regression", str(regression), near)
    return state


@dataclass(frozen=True, kw_only=True)
class _Joinable:
    """A regression that changes of its key still join."""

    id: int
    state: str
    changed_at: float


def _joinable(tx: Connection, key: str) -> _Joinable | None:
    query = _of_key(key).where(schema.regression.c.state.in_(JOINED))
    return fetch_first(tx, query, _Joinable)


def _of_key(key: str) -> Select[int, str, float]:
    """Select the regressions of a key, the newest first."""
    table = schema.regression.c
    return (
        select(table.id, table.state, table.changed_at)
        # an older vkbench put the family of kernels at the end of its keys
        .where(or_(table.group_key == key, table.group_key.startswith(f"{key}|", autoescape=True)))
        .order_by(table.id.desc())
    )


def _open(tx: Connection, new: Group, members: Sequence[Ungrouped], now: float) -> int:
    earlier = fetch_first(tx, _of_key(new.key), _Joinable)
    row = {
        "group_key": new.key,
        "direction": members[0].direction,
        "cause": members[0].cause,
        "title": "",
        "state": RegressionStage.OPEN,
        "opened_at": now,
        "changed_at": now,
    }
    made = tx.execute(
        insert(schema.regression).returning(schema.regression.c.id), [row]
    ).scalar_one()
    _add(tx, made, members)
    _write_title(tx, made, new)
    again = f"; again, after regression {earlier.id}, which is {earlier.state}" if earlier else ""
    note_event(tx, made, RegressionStage.OPEN, now, note=f"{_count_members(members)}{again}")
    return made


def _join(
    tx: Connection, known: _Joinable, grown: Group, members: Sequence[Ungrouped], now: float
) -> None:
    """Add changes; note what they are: a return, a growth, or more series of what it has."""
    was_fixed = known.state == RegressionStage.FIXED
    stage = RegressionStage.OPEN if was_fixed else RegressionStage(known.state)
    growth = _growth(tx, known.id, members)
    # what was measured before the fix is not back: its pairs took longer
    is_back = was_fixed and any(change.measured_at > known.changed_at for change in members)
    table = schema.regression.c
    tx.execute(
        update(schema.regression).where(table.id == known.id).values(state=stage, changed_at=now)
    )
    _add(tx, known.id, members)
    _write_title(tx, known.id, grown)
    event = AGAIN if is_back else GROWN if growth else stage
    note = "; ".join(filter(None, (growth, f"{_count_members(members)} more")))
    note_event(tx, known.id, event, now, note=note)


def _growth(tx: Connection, regression: int, members: Sequence[Ungrouped]) -> str:
    """Which devices and kernels of these a regression does not have yet, in words."""
    view = schema.v_regressions.c
    has = select(view.device, view.kernel).where(view.regression == regression).distinct()
    pairs = tx.execute(has).all()
    devices, kernels = {row.device for row in pairs}, {row.kernel for row in pairs}
    new_devices = dict.fromkeys(
        f"{change.device_name} of {change.host}"
        for change in members
        if change.device not in devices
    )
    new_kernels = dict.fromkeys(change.family for change in members if change.family not in kernels)
    parts = [f"now also on {_some(list(new_devices))}"] if new_devices else []
    parts += [f"now also {_some(list(new_kernels))}"] if new_kernels else []
    return ", ".join(parts)


def _some(names: Sequence[str]) -> str:
    left = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def _add(tx: Connection, regression: int, members: Sequence[Ungrouped]) -> None:
    rows = [{"change_point_id": change.id, "regression_id": regression} for change in members]
    tx.execute(insert(schema.regression_member), rows)


def _write_title(tx: Connection, regression: int, whole: Group) -> None:
    """Say in the title what all its changes are now."""
    view, job, table = schema.v_regressions.c, schema.job.c, schema.regression.c
    measured_at = func.coalesce(job.finished_at, view.found_at).label("measured_at")
    members = (
        select(view.kernel, view.format, schema.build.c.program)
        .add_columns(view.device, view.device_name, view.host, view.direction, view.ratio)
        .add_columns(job.cause.label("ended"), measured_at)
        .join(schema.job, job.id == view.after_job)
        .outerjoin(schema.build, schema.build.c.sha == view.after_bundle)
        .where(view.regression == regression)
        .order_by(view.change)
    )
    title = whole.title_of(fetch(tx, members, Member))
    tx.execute(update(schema.regression).where(table.id == regression).values(title=title))


def _count_members(members: Sequence[Ungrouped]) -> str:
    kernels = count_of(len({change.family for change in members}), "kernel")
    devices = count_of(len({change.device for change in members}), "device")
    return f"{len(members)} series of {kernels} on {devices}"
