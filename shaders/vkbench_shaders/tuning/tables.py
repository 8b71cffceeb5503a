"""Tuning tables: the fastest configurations of measured cases, which similar cases take too.

Similar are cases of one kernel with the same formats and parameters whose sizes round to the same
powers of two; of several, the one of the nearest sizes counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources.abc import Traversable
from math import log2

from vkbench.case import SEED, WEIGHTS, Case, parse
from vkbench.device import DeviceFacts
from vkbench.messages import wire
from vkbench.words.names import pick
from vkbench_shaders import catalogue
from vkbench_shaders.kernel import Problem
from vkbench_shaders.tuning.classes import (
    ANY,
    CLASSES,
    class_of,
    installed_path,
    shipped_file,
)
from vkbench_shaders.tuning.estimates import Peaks, check_peaks
from vkbench_shaders.tuning.evidence import Evidence
from vkbench_shaders.tuning.rates import Rates
from vkbench_shaders.tuning.thresholds import check_thresholds

FORMAT = "vkbench-tuning"
VERSION = 1
_IF_ANY = ("evidence", "digest")  # what a file has of an exported table alone
_OF_INPUTS = (WEIGHTS, SEED)  # parameters that only say what arrays hold


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A measured case, and the configuration that was faster there than the estimated one."""

    case: str  # canonical name
    configuration: str  # its name
    seconds: float
    estimated: str  # the configuration without tuning
    estimated_seconds: float


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a table was measured on."""

    device: str  # its name
    driver: str
    driver_version: str
    vkbench: str  # version
    measured_at: str  # ISO 8601


@dataclass(frozen=True, kw_only=True)
class Table:
    """The tuned cases of a device, or of a class of devices."""

    device_class: str = ""  # "" of a single device
    sources: tuple[Source, ...] = ()
    tuned: tuple[Tuned, ...] = ()
    rates: Rates | None = None  # of tables that ship, for estimates
    peaks: Peaks | None = None  # of the device that was calibrated, by which thresholds scale
    # groups of measured thresholds, by the names that `thresholds.GROUPS` have
    thresholds: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()  # of a table that was exported to be sent in
    digest: str = ""  # SHA-256 of all else in such a table's file
    format: str = FORMAT
    version: int = VERSION

    def configuration(self, problem: Problem) -> str:
        """The name of the configuration for a problem; "" where none is known."""
        near = self._by_place.get(_place(problem.case), ())
        if not near:
            return ""
        return min(near, key=lambda tuned: _distance(problem.case, parse(tuned.case))).configuration

    @cached_property
    def _by_place(self) -> dict[tuple[object, ...], list[Tuned]]:
        by_place: dict[tuple[object, ...], list[Tuned]] = {}
        for tuned in self.tuned:
            by_place.setdefault(_place(parse(tuned.case)), []).append(tuned)
        return by_place


def configuration(problem: Problem, device: DeviceFacts) -> str:
    """What the tables of a device's class have for a problem; the installed one goes first."""
    name = class_of(device).name
    tables = (read_installed(name), read_shipped(name))
    return next(filter(None, (table.configuration(problem) for table in tables)), "")


@cache
def read_shipped(device_class: str) -> Table:
    """The table of a class that the package has; an empty one where it has none."""
    return _read(shipped_file(device_class), device_class)


@cache
def read_installed(device_class: str) -> Table:
    """The table of a class that was installed on this host; an empty one where none was."""
    return _read(installed_path(device_class), device_class)


def _read(file: Traversable, device_class: str) -> Table:
    return read(file.read_bytes()) if file.is_file() else Table(device_class=device_class)


def read(data: bytes) -> Table:
    """A table from its file; MalformedMessage or UsageError says what is wrong with it."""
    table = wire.decode(data, Table)
    if (table.format, table.version) != (FORMAT, VERSION):
        raise wire.MalformedMessage(
            f"it is no tuning table of version {VERSION}: {table.format} {table.version}"
        )
    # An installed table's file is named for its class, so that a class has to be no path.
    classes = (*(kind.name for kind in CLASSES), ANY)
    named = pick(table.device_class, classes, "class of devices")
    check_thresholds(table.thresholds)
    if table.peaks:
        check_peaks(table.peaks)
    for tuned in table.tuned:
        catalogue.problem(tuned.case)
    return replace(table, device_class=named)


def encode(table: Table) -> bytes:
    """A table as its file."""
    whole: dict[str, object] = wire.from_builtins(wire.to_builtins(table), dict)
    written = {name: value for name, value in whole.items() if value or name not in _IF_ANY}
    return json.dumps(written, indent=1).encode() + b"\n"


def digest_of(data: bytes) -> str:
    """The SHA-256 of all that a table's file says beside its digest: a damaged one has another.

    It is of the file and not of the record, which has more fields in later versions.
    """
    written = json.loads(data)
    written.pop("digest", None)
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()


def _place(case: Case) -> tuple[object, ...]:
    """What similar cases have in common."""
    params = sorted((name, value) for name, value in case.params.items() if name not in _OF_INPUTS)
    sizes = tuple(_round_size(size) for size in case.shape.values())
    return (case.kernel, case.format, tuple(sorted(case.types.items())), tuple(params), sizes)


def _round_size(size: int) -> int:
    return round(log2(size)) if size else -1


def _distance(one: Case, other: Case) -> float:
    pairs = zip(one.shape.values(), other.shape.values(), strict=True)
    return sum(abs(log2(max(a, 1) / max(b, 1))) for a, b in pairs)
