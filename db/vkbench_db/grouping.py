"""What confirmed changes have in common: the key that makes them one regression, and its title."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from vkbench_db import models
from vkbench_db.change_points import Cause, Standing

SHOWN = 12  # digits of a hash

AnyRow = Row[*tuple[Any, ...]]
Facts = Mapping[str, Mapping[str, Any]]  # of environments by hash


@dataclass(frozen=True, kw_only=True)
class Group:
    """What a change belongs to."""

    key: str
    title: str


def ungrouped(tx: Connection) -> list[AnyRow]:
    """Confirmed changes that no regression has, with what their group is told by."""
    change, member = models.ChangePoint, models.RegressionMember
    series, case, device = models.Series, models.KernelCase, models.Device
    rows = tx.execute(
        select(
            change.__table__,
            *(case.kernel.label("family"), device.key.label("device")),
            *(device.name.label("device_name"), models.Host.name.label("host")),
        )
        .join(series, series.id == change.series_id)
        .join(case, case.id == series.case_id)
        .join(device, device.id == series.device_id)
        .join(models.Host, models.Host.id == device.host_id)
        .outerjoin(member, member.change_point_id == change.id)
        .where(change.state == Standing.CONFIRMED, member.change_point_id.is_(None))
        .order_by(change.id)
    )
    return list(rows)


def environment_facts(tx: Connection, hashes: set[str]) -> Facts:
    """What environments are made of."""
    environment = models.Environment
    rows = tx.execute(
        select(environment.hash, environment.facts).where(environment.hash.in_(hashes))
    )
    return {row.hash: row.facts for row in rows}


def group_of(change: AnyRow, facts: Facts) -> Group:
    """By direction, cause and what moved; where nothing moved, by the device.

    One bundle, one driver or one host is one cause, however many kernels and devices show it.
    """
    if change.cause == Cause.HOST:
        what = f"on {change.device_name} on {change.host}: neither kernels nor driver changed"
        return Group(key=_key(change, change.device), title=f"{change.direction} {what}")
    moved = _moved(change, facts)
    return Group(key=_key(change, moved), title=f"{change.direction} since {moved}")


def _key(change: AnyRow, what: str) -> str:
    return "|".join((change.direction, change.cause, what))


def _moved(change: AnyRow, facts: Facts) -> str:
    found = []
    if change.before_kernel != change.after_kernel:
        bundle = change.after_bundle[:SHOWN]
        found.append(f"bundle {bundle}" if bundle else f"kernel {change.after_kernel[:SHOWN]}")
    if change.before_environment != change.after_environment:
        found.append(_difference(change, facts))
    return ", ".join(found) or "nothing that was noted"


def _difference(change: AnyRow, facts: Facts) -> str:
    """The fields of the environment that moved, which hosts updated alike have in common."""
    before = _flat(facts.get(change.before_environment, {}))
    after = _flat(facts.get(change.after_environment, {}))
    names = [name for name in sorted(before | after) if before.get(name) != after.get(name)]
    if not names:
        return f"environment {change.after_environment[:SHOWN]}"
    return ", ".join(f"{name} {after.get(name, 'gone')}" for name in names)


def _flat(facts: Mapping[str, Any]) -> dict[str, str]:
    plain = {name: str(value) for name, value in facts.items() if name != "extra"}
    return plain | {name: str(value) for name, value in facts.get("extra", {}).items()}
