"""Suspicions that wait to be measured again, and with which bundles that can be done."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from vkbench.job import Arm, ArmKind
from vkbench.result import HOT
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_db.work.builds import has_files, is_build
from vkbench_db.work.bundles import has_bundle
from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.states import DECIDED, ChangeState
from vkbench_detection.confirm.drivers import find_drivers
from vkbench_detection.confirm.pairable import is_pairable


@dataclass(frozen=True, kw_only=True)
class Arms:
    """The arms of a pair: twice the new one where the old one cannot tell more."""

    old: Arm
    new: Arm

    @property
    def are_same(self) -> bool:
        """Whether both are the same, so that their pairs cannot blame a kernel."""
        return self.old == self.new


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A suspicion that waits to be measured again."""

    point: ChangePoint
    device: str  # key
    device_id: int
    case: str
    variant: str
    metric: str
    environments: tuple[str, str]  # hashes, before and after the change
    is_new_kernel: bool  # whether another kernel came with the change
    is_again: bool  # whether it was decided before, and later results keep its shift
    arms: Arms | None  # None where the new bundle is not kept

    @property
    def change(self) -> int:
        """The number of its change point."""
        return self.point.id

    @property
    def direction(self) -> str:
        """Whether times became slower or faster."""
        return self.point.direction


@dataclass(frozen=True, kw_only=True)
class _Suspected(ChangePoint):
    """A suspicion, and what a run of pairs needs to know of its series and device."""

    variant: str
    metric: str
    device_id: int
    device: str  # key
    packaged: str  # SHA-256 of the packaged bundle there
    case: str
    times_decided: int


def waiting(tx: Connection, devices: set[int]) -> list[Waiting]:
    """The suspicions on these devices, the oldest first."""
    return [_waiting(row, _arms(tx, row)) for row in _list_suspected(tx, devices)]


def _list_suspected(tx: Connection, devices: set[int]) -> list[_Suspected]:
    change, series, device = schema.change_point.c, schema.series.c, schema.device.c
    event = schema.change_point_event.c
    decisions = (
        select(func.count())
        .where(event.change_point_id == change.id, event.state.in_(DECIDED))
        .scalar_subquery()
    )
    query = (
        select_record(
            _Suspected,
            *(schema.change_point, schema.series),
            packaged=device.bundle,
            case=schema.kernel_case.c.name,
            times_decided=decisions,
        )
        .join(schema.series, series.id == change.series_id)
        .join(schema.device, device.id == series.device_id)
        .join(schema.kernel_case, schema.kernel_case.c.id == series.case_id)
        .where(change.state == ChangeState.SUSPECTED, device.id.in_(devices))
        .where(is_pairable())  # the history decides the others
        .order_by(change.found_at, change.id)
    )
    return fetch(tx, query, _Suspected)


def _arms(tx: Connection, row: _Suspected) -> Arms | None:
    """The arms to measure again: bundles are kept with their blobs, builds by their hosts.

    Where another driver came with the same kernel, both drivers, as far as the host has them.
    """
    new = row.after_bundle
    kind, is_kept = ArmKind.BUNDLE, has_bundle
    if is_build(tx, new):
        kind, is_kept = ArmKind.BUILD, has_files
    if not new or not (new == row.packaged or is_kept(tx, new)):
        return None
    is_driver_s = row.before_kernel == row.after_kernel and row.metric == HOT
    if is_driver_s and new == row.packaged and (drivers := find_drivers(tx, row).arms):
        return Arms(old=drivers[0], new=drivers[1])
    old = row.before_bundle
    is_other = row.before_kernel != row.after_kernel and old not in ("", new)
    if not (is_other and (old == row.packaged or is_kept(tx, old))):
        if kind == ArmKind.BUILD and "" in (row.before_environment, row.after_environment):
            return None  # a file told these times: the new build's own say nothing of them
        old = new
    return Arms(old=Arm(name=old, kind=kind), new=Arm(name=new, kind=kind))


def _waiting(row: _Suspected, arms: Arms | None) -> Waiting:
    return Waiting(
        point=row,
        device=row.device,
        device_id=row.device_id,
        case=row.case,
        variant=row.variant,
        metric=row.metric,
        environments=(row.before_environment, row.after_environment),
        is_new_kernel=row.before_kernel != row.after_kernel,
        is_again=row.times_decided > 0,
        arms=arms,
    )
