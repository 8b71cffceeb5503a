"""The drivers before and after a change, where the device's host still has the files of both.

A worker keeps copies of the drivers that its host ran on, and a user may have added more: the
hashes that environments hold name them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from vkbench.device import DRIVER_SHA, ICD_LIBRARY
from vkbench.job import Arm, ArmKind
from vkbench.programs.build import SHA_SHOWN
from vkbench.software import name_drivers
from vkbench_db import schema
from vkbench_db.ask.devices.drivers import DeviceDrivers, read_drivers
from vkbench_db.ask.devices.environments import read_facts
from vkbench_db.ask.driver_names import names_of_files
from vkbench_detection.changes.change_point import ChangePoint, Method

FAILED = "failed"  # verdict of a confirmation of which no pair was measured


@dataclass(frozen=True, kw_only=True)
class DriverMove:
    """Whether another driver came with a change, and what can be timed of both."""

    arms: tuple[Arm, Arm] | None = None  # the old one, the new one
    reason: str = ""  # why they cannot be timed in turns; "" where no driver moved, or they can


NO_MOVE = DriverMove()


def find_drivers(tx: Connection, change: ChangePoint) -> DriverMove:
    """The drivers before and after a change, as its device's host has them."""
    before, after = change.before_environment, change.after_environment
    if change.method == Method.DECAY or before == after:
        return NO_MOVE
    facts = read_facts(tx, {before, after})
    old, new = facts.get(before, {}), facts.get(after, {})
    if name_drivers(old, new) is None:
        return NO_MOVE
    if _has_failed(tx, change.id):
        return DriverMove(reason="no pair of both drivers could be measured")
    series, device = schema.series.c, schema.device.c
    key = select(device.key).join(schema.series, series.device_id == device.id)
    [kept] = read_drivers(tx, list(tx.execute(key.where(series.id == change.series_id)).scalars()))
    shas = [_find_driver(facts, kept) for facts in (old, new)]
    if all(shas):
        first, second = (Arm(name=sha, kind=ArmKind.DRIVER) for sha in shas)
        return DriverMove(arms=(first, second)) if first != second else NO_MOVE
    return DriverMove(reason=_explain_lack(kept, has_old=bool(shas[0])))


def name_timed_drivers(tx: Connection, changes: Collection[int]) -> dict[int, tuple[str, str]]:
    """What the drivers are called that were timed in turns to confirm changes, old and new."""
    table, job = schema.confirmation.c, schema.job.c
    rows = tx.execute(
        select(table.change_point_id, job.against, job.bundle)
        .join(schema.job, job.run_id == table.run_id)
        .where(table.change_point_id.in_(changes), job.arm_kind == ArmKind.DRIVER)
        .order_by(job.id)
    ).all()
    if not rows:
        return {}
    names = names_of_files(tx)

    def name(sha: str) -> str:
        return names.get(sha[:SHA_SHOWN]) or sha[:SHA_SHOWN]

    return {row.change_point_id: (name(row.against), name(row.bundle)) for row in rows}


def _explain_lack(kept: DeviceDrivers, *, has_old: bool) -> str:
    if kept.own is None:
        return "its worker is of a version that keeps no copies of drivers"
    if kept.own.reason:
        return kept.own.reason
    which = "new" if has_old else "old"
    return f"the files of the {which} driver are not kept on its host"


def _find_driver(facts: Mapping[str, Any], kept: DeviceDrivers) -> str:
    """The whole hash of the driver of an environment; "" where its host has it no more."""
    extra = facts.get("extra") or {}
    if added := extra.get(DRIVER_SHA):
        return next((driver.sha for driver in kept.added or () if driver.sha.startswith(added)), "")
    library = extra.get(ICD_LIBRARY)
    copies = kept.own.copies if kept.own and library else ()
    return next((copy.sha for copy in copies if copy.library == library), "")


def _has_failed(tx: Connection, change: int) -> bool:
    """Whether pairs of drivers were asked for to confirm a change, and none was measured."""
    table, job = schema.confirmation.c, schema.job.c
    query = (
        select(table.id)
        .join(schema.job, job.run_id == table.run_id)
        .where(
            *(table.change_point_id == change, table.verdict == FAILED),
            job.arm_kind == ArmKind.DRIVER,
        )
    )
    return tx.execute(query.limit(1)).first() is not None
