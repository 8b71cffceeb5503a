"""Which confirmed changes have one cause: the key of their regression, and its title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from sqlalchemy import Connection, func, select

from vkbench.job import Outcome
from vkbench.software import list_moved, name_arrivals, name_drivers
from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import FAILED, Cause
from vkbench_detection.changes.states import ChangeState

KEY_DIGITS = 12  # of a hash in a key; databases keep keys
SHOWN_DIGITS = 7  # of a hash in a title
MOST_NAMED = 2  # kernels that a title names
TIMES = 2.0  # from this ratio on a title says "16 times slower", below it per cent

Facts = Mapping[str, Mapping[str, Any]]  # of environments by hash


@dataclass(frozen=True, kw_only=True)
class Member:
    """A change of a regression, as its title tells it."""

    kernel: str
    format: str
    program: str | None  # whose build computed the case; None where a kernel did
    device: str  # key
    device_name: str
    host: str
    direction: str
    ended: str  # how the first bad job failed: an Outcome
    ratio: float | None  # new time over old; None of verdicts
    measured_at: float  # when its first bad job ended


@dataclass(frozen=True, kw_only=True)
class Group:
    """The regression that a change belongs to."""

    key: str
    moved: str  # what changed where it began: "e4f46fe", a bundle; "" if the device alone did
    is_gradual: bool = False

    def title_of(self, members: Sequence[Member]) -> str:
        """What, how much, where, since what and when."""
        kernels = _name_computed(members)
        changed = _describe_ratio(members)
        began = datetime.fromtimestamp(min(member.measured_at for member in members), UTC)
        day = f"{began.day} {began:%b}"
        if self.is_gradual:
            since = f"than with {self.moved}, little by little until {day}"
        elif self.moved:
            since = f"since {self.moved} ({day})"
        else:
            since = f"since {day}: neither kernels nor driver changed"
        return f"{kernels} {changed} on {_name_devices(members)} {since}"


def _name_computed(members: Sequence[Member]) -> str:
    """The kernels; of one program's builds behind its name, and a single one with its format."""
    program = members[0].program
    if any(member.program != program for member in members):
        return _name_kernels(
            [f"{member.program or ''} {_name_kernel(member)}".strip() for member in members]
        )
    kernels = _name_kernels([_name_kernel(member) for member in members])
    if not program:
        return kernels
    computed = {(_name_kernel(member), member.format) for member in members}
    words = computed.pop() if len(computed) == 1 else (kernels,)
    return " ".join(filter(None, (program, *words)))


def _name_kernel(member: Member) -> str:
    """A kernel; what a program has of its own, by its name within the program."""
    return member.kernel.removeprefix(f"{member.program}:")


def _name_kernels(kernels: Sequence[str]) -> str:
    names = [name for name, _ in Counter(kernels).most_common()]
    more = len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(names[:MOST_NAMED])} and {more} more"
    return " and ".join(names)


def _name_devices(members: Sequence[Member]) -> str:
    devices = {member.device: member for member in members}
    if len(devices) > 1:
        return f"{len(devices)} devices"
    [member] = devices.values()
    return f"{member.device_name} of {member.host}"


def _describe_ratio(members: Sequence[Member]) -> str:
    """ "9 % slower" or "16 times slower"; of verdicts their direction alone."""
    ratios = [member.ratio for member in members if member.ratio is not None]
    direction = members[0].direction
    if direction == FAILED and all(
        member.program and member.ended == Outcome.CRASHED for member in members
    ):
        return "crashed"
    if not ratios:
        return direction
    mean = fmean(ratios)
    times = max(mean, 1 / mean)
    if times >= TIMES:
        return f"{times:.{0 if times >= 10 else 1}f} times {direction}"
    percent = abs(mean - 1) * 100
    return f"{percent:.{0 if percent >= 1 else 1}f} % {direction}"


@dataclass(frozen=True, kw_only=True)
class Ungrouped(ChangePoint):
    """A confirmed change that belongs to no regression yet, and where it is."""

    family: str  # kernel
    device: str  # key
    device_name: str
    host: str
    measured_at: float  # when its first bad job ended
    program: str | None  # whose build came with it; None where it was no build
    build: str | None  # what people call that
    before_build: str | None  # and the one before


def ungrouped_changes(tx: Connection) -> list[Ungrouped]:
    """Confirmed changes that belong to no regression yet, with what decides their group."""
    change, member = schema.change_point.c, schema.regression_member.c
    series, case, device = schema.series.c, schema.kernel_case.c, schema.device.c
    old_build = schema.build.alias()
    query = (
        select(
            schema.change_point,
            *(case.kernel.label("family"), device.key.label("device")),
            *(device.name.label("device_name"), schema.host.c.name.label("host")),
            func.coalesce(schema.job.c.finished_at, change.found_at).label("measured_at"),
            *(schema.build.c.program, schema.build.c.name.label("build")),
            old_build.c.name.label("before_build"),
        )
        .join(schema.job, schema.job.c.id == change.after_job)
        .join(schema.series, series.id == change.series_id)
        .join(schema.kernel_case, case.id == series.case_id)
        .join(schema.device, device.id == series.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .outerjoin(schema.build, schema.build.c.sha == change.after_bundle)
        .outerjoin(old_build, old_build.c.sha == change.before_bundle)
        .outerjoin(schema.regression_member, member.change_point_id == change.id)
        .where(change.state == ChangeState.CONFIRMED, member.change_point_id.is_(None))
        .order_by(change.id)
    )
    return fetch(tx, query, Ungrouped)


def group_of(change: Ungrouped, facts: Facts) -> Group:
    """The group of a change: its direction, its cause and what moved, or the device if nothing did.

    One bundle, build, driver or host is one cause, however many kernels and devices show it.
    """
    if change.cause == Cause.HOST:
        return Group(key=_key(change, change.device), moved="")
    if change.method == Method.DECAY:
        what = f"than bundle {change.before_bundle[:KEY_DIGITS]}, little by little"
        moved = change.before_build or change.before_bundle[:SHOWN_DIGITS]
        return Group(key=_key(change, what), moved=moved, is_gradual=True)
    keyed = ", ".join(_list_moved(change, facts, KEY_DIGITS)) or "nothing that was noted"
    moved = ", ".join(_list_moved(change, facts, SHOWN_DIGITS)).removeprefix("bundle ")
    if change.program and change.cause == Cause.BUILD:  # the title begins with the program
        moved = moved.removeprefix(f"{change.program} ")
    return Group(key=_key(change, keyed), moved=moved)


def _key(change: Ungrouped, what: str) -> str:
    return "|".join((change.direction, change.cause, what))


def _list_moved(change: Ungrouped, facts: Facts, digits: int) -> list[str]:
    """What computed the case and changed, and the environment, in words; hashes by their digits."""
    moved = []
    if change.program and change.before_bundle != change.after_bundle:
        name = change.build if digits == SHOWN_DIGITS else ""
        moved.append(f"{change.program} {name or change.after_bundle[:digits]}")
    elif change.before_kernel != change.after_kernel:
        bundle, kernel = change.after_bundle[:digits], change.after_kernel[:digits]
        moved.append(f"bundle {bundle}" if bundle else f"kernel {kernel}")
    if change.before_environment != change.after_environment:
        moved.append(_difference(change, facts, digits))
    return moved


def _difference(change: Ungrouped, facts: Facts, digits: int) -> str:
    """What of the environment moved: the same on all hosts that got one update."""
    before, after = (
        facts.get(known, {}) for known in (change.before_environment, change.after_environment)
    )
    drivers = name_drivers(before, after) if change.cause == Cause.DRIVER else None
    if drivers:
        return f"driver {' → '.join(drivers)}"
    moved = list_moved(before, after)
    if not moved:
        return f"environment {change.after_environment[:digits]}"
    if digits == SHOWN_DIGITS:
        return ", ".join(name_arrivals(moved))
    return ", ".join(f"{one.name} {one.after or 'gone'}" for one in moved)
