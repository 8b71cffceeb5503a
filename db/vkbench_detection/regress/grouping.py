"""Which confirmed changes have one cause: the key of their regression, and its title."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.decisions import Cause
from vkbench_detection.changes.methods import Method
from vkbench_detection.changes.states import ChangeState

SHOWN = 12  # digits of a hash

Facts = Mapping[str, Mapping[str, Any]]  # of environments by hash


@dataclass(frozen=True, kw_only=True)
class Group:
    """The regression that a change belongs to."""

    key: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Ungrouped(ChangePoint):
    """A confirmed change that belongs to no regression yet, and where it is."""

    family: str  # kernel
    device: str  # key
    device_name: str
    host: str
    measured_at: float  # when its first bad job ended


def ungrouped(tx: Connection) -> list[Ungrouped]:
    """Confirmed changes that belong to no regression yet, with what decides their group."""
    change, member = schema.change_point.c, schema.regression_member.c
    series, case, device = schema.series.c, schema.kernel_case.c, schema.device.c
    asked = (
        select(
            schema.change_point,
            *(case.kernel.label("family"), device.key.label("device")),
            *(device.name.label("device_name"), schema.host.c.name.label("host")),
            func.coalesce(schema.job.c.finished_at, change.found_at).label("measured_at"),
        )
        .join(schema.job, schema.job.c.id == change.after_job)
        .join(schema.series, series.id == change.series_id)
        .join(schema.kernel_case, case.id == series.case_id)
        .join(schema.device, device.id == series.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .outerjoin(schema.regression_member, member.change_point_id == change.id)
        .where(change.state == ChangeState.CONFIRMED, member.change_point_id.is_(None))
        .order_by(change.id)
    )
    return fetch(tx, asked, Ungrouped)


def environment_facts(tx: Connection, hashes: set[str]) -> Facts:
    """The facts of environments, by hash."""
    environment = schema.environment.c
    rows = tx.execute(
        select(environment.hash, environment.facts).where(environment.hash.in_(hashes))
    )
    return {row.hash: row.facts for row in rows}


def group_of(change: Ungrouped, facts: Facts) -> Group:
    """The group of a change: its direction, its cause and what moved, or the device if nothing did.

    One bundle, one driver or one host is one cause, however many kernels and devices show it.
    """
    if change.cause == Cause.HOST:
        what = f"on {change.device_name} on {change.host}: neither kernels nor driver changed"
        return Group(key=_key(change, change.device), title=f"{change.direction} {what}")
    if change.method == Method.DECAY:
        what = f"than bundle {change.before_bundle[:SHOWN]}, little by little"
        return Group(key=_key(change, what), title=f"{change.direction} {what}")
    moved = _describe_changes(change, facts)
    return Group(key=_key(change, moved), title=f"{change.direction} since {moved}")


def _key(change: Ungrouped, what: str) -> str:
    return "|".join((change.direction, change.cause, what))


def _describe_changes(change: Ungrouped, facts: Facts) -> str:
    found = []
    if change.before_kernel != change.after_kernel:
        bundle = change.after_bundle[:SHOWN]
        found.append(f"bundle {bundle}" if bundle else f"kernel {change.after_kernel[:SHOWN]}")
    if change.before_environment != change.after_environment:
        found.append(_difference(change, facts))
    return ", ".join(found) or "nothing that was noted"


def _difference(change: Ungrouped, facts: Facts) -> str:
    """The fields of the environment that moved: the same on all hosts that got one update."""
    before = _flat(facts.get(change.before_environment, {}))
    after = _flat(facts.get(change.after_environment, {}))
    names = [name for name in sorted(before | after) if before.get(name) != after.get(name)]
    if not names:
        return f"environment {change.after_environment[:SHOWN]}"
    return ", ".join(f"{name} {after.get(name, 'gone')}" for name in names)


def _flat(facts: Mapping[str, Any]) -> dict[str, str]:
    plain = {name: str(value) for name, value in facts.items() if name != "extra"}
    return plain | {name: str(value) for name, value in facts.get("extra", {}).items()}
