"""What can be compared: results of a run, a bundle, a build, a driver, a device or a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, select

from vkbench.errors import UnknownName, UsageError
from vkbench.job import Arm, ArmKind
from vkbench.run import COMPARED
from vkbench.selector import one
from vkbench.settings import settings
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.devices.names import named_devices
from vkbench_db.ask.driver_names import find_driver, find_environments
from vkbench_db.ask.queries import PREFIX, find_run
from vkbench_db.work.builds import find_build_sha, names_of_builds

_HEX = frozenset("0123456789abcdef")
_SHA_DIGITS = 64


class ReferenceKind(StrEnum):
    """What people choose results by."""

    RUN = "run"
    BUNDLE = "bundle"  # compiled kernels
    BUILD = "build"  # a version of a program
    DRIVER = "driver"
    DEVICE = "device"  # the newest ones of it
    DATE = "date"  # the latest ones up to then


@dataclass(frozen=True, kw_only=True)
class WholeRun:
    """All results of a run."""

    number: int


@dataclass(frozen=True, kw_only=True)
class LatestOfDevice:
    """The latest results of a device."""

    key: str


@dataclass(frozen=True, kw_only=True)
class LatestBefore:
    """The latest results that ended before a moment."""

    moment: float


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Results that others are compared with: those of an arm, or of a run, a device or a day."""

    name: str  # as people are told: "run 3 (nightly)"
    chosen: Arm | WholeRun | LatestOfDevice | LatestBefore

    @property
    def is_device(self) -> bool:
        """Whether these are whatever results a device has, so that its name says all."""
        return isinstance(self.chosen, LatestOfDevice)


def ran_arm(tx: Connection, arm: Arm) -> ColumnElement[bool]:
    """Whether an attempt ran an arm. An arm of another kind needs one more case here."""
    attempt = schema.attempt.c
    match arm.kind:
        case ArmKind.BUNDLE | ArmKind.BUILD:
            return attempt.bundle == arm.name
        case ArmKind.DRIVER:
            return attempt.environment.in_(list(find_environments(tx, arm.name)))


def find(tx: Connection, given: str) -> Reference:
    """What is meant by `kind:value`, the name of a pinned baseline, or the words for a run."""
    kind, colon, value = given.partition(":")
    if colon and kind in _FINDERS:
        return _FINDERS[kind](tx, value)
    if _baseline(tx, given):
        return find_baseline(tx, given)
    try:
        return find_of_run(tx, given)
    except UnknownName as error:
        near = error.near or names.nearest(given, [*_baselines(tx), *_FINDERS])
        raise UnknownName("run or baseline", given, near) from error


def find_of_run(tx: Connection, given: str) -> Reference:
    """A run by its number, label, UUID or `last`."""
    run = find_run(tx, given, COMPARED)
    label = f" ({run.label})" if run.label else ""
    return Reference(name=f"run {run.id}{label}", chosen=WholeRun(number=run.id))


def find_of_bundle(tx: Connection, given: str) -> Reference:
    """The results of a bundle, as `find_bundle` finds it."""
    sha = find_bundle(tx, given)
    return Reference(name=f"bundle {sha[:12]}", chosen=Arm(name=sha))


def find_bundle(tx: Connection, given: str) -> str:
    """The SHA-256 of a bundle that ran, by all its digits or the first of them."""
    start = given.strip().lower()
    if not PREFIX <= len(start) <= _SHA_DIGITS or not set(start) <= _HEX:
        raise UsageError(f"'{given}' is no SHA-256 of a bundle nor {PREFIX} digits or more of one")
    known = {*_ends(tx, schema.attempt.c.bundle, start), *_ends(tx, schema.bundle.c.sha, start)}
    if not known:
        raise UnknownName("bundle", given)
    if len(known) > 1:
        raise UsageError(f"'{given}' begins several bundles: give more of it")
    return known.pop()


def _find_build(tx: Connection, given: str) -> Reference:
    """The results of a build that ran, by its name or the first digits of its hash."""
    sha = find_build_sha(tx, given)
    name = names_of_builds(tx)[sha] or sha[:12]
    return Reference(name=f"build {name}", chosen=Arm(kind=ArmKind.BUILD, name=sha))


def find_of_date(tx: Connection, given: str) -> Reference:
    """Until a moment in ISO 8601, UTC where it names no zone; of a day, until its end."""
    text = given.strip()
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        is_day = len(text) <= len("2026-11-01")
        until = (moment + timedelta(days=is_day)).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"'{given}' is no date such as 2026-11-01 or 2026-11-01T12:00") from error
    return Reference(name=f"results until {text}", chosen=LatestBefore(moment=until))


def find_baseline(tx: Connection, name: str) -> Reference:
    """What was pinned under a name."""
    stored = _baseline(tx, name)
    if not stored:
        raise UnknownName("baseline", name, names.nearest(name, _baselines(tx)))
    kind, value = stored
    pinned = _FINDERS[kind](tx, value)
    return replace(pinned, name=f"baseline {name}: {pinned.name}")


def _find_driver(tx: Connection, given: str) -> Reference:
    drivers = find_driver(tx, given)
    whole_names = " and ".join(dict.fromkeys(drivers.values()))
    arm = Arm(kind=ArmKind.DRIVER, name=given.strip())
    word = "" if given.strip() in whole_names else f"{given.strip()}, "
    return Reference(name=f"driver {word}{whole_names}", chosen=arm)


def _find_device(tx: Connection, given: str) -> Reference:
    key = one(given, named_devices(tx), settings().host).key
    return Reference(name=f"device {key}", chosen=LatestOfDevice(key=key))


_FINDERS: Mapping[str, Callable[[Connection, str], Reference]] = {
    ReferenceKind.RUN: find_of_run,
    ReferenceKind.BUNDLE: find_of_bundle,
    ReferenceKind.BUILD: _find_build,
    ReferenceKind.DRIVER: _find_driver,
    ReferenceKind.DEVICE: _find_device,
    ReferenceKind.DATE: find_of_date,
    "baseline": find_baseline,
}


def _ends(tx: Connection, column: Column[Any], start: str) -> list[str]:
    """The first and the last value that begin so: one where they agree; each is one look-up."""
    query = select(column).where(column.between(start, start + "g")).limit(1)
    ends = [tx.execute(query.order_by(order)).scalar() for order in (column, column.desc())]
    return [str(value) for value in ends if value]


def _baseline(tx: Connection, name: str) -> tuple[str, str] | None:
    row = tx.execute(
        select(schema.baseline.c.kind, schema.baseline.c.value).where(
            schema.baseline.c.name == name
        )
    ).first()
    return (row.kind, row.value) if row else None


def _baselines(tx: Connection) -> list[str]:
    return list(
        tx.execute(select(schema.baseline.c.name).order_by(schema.baseline.c.name)).scalars()
    )
