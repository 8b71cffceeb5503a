"""The share of a device's calibrated maximum that a timing reaches.

The share of the roof holds a launch against the fastest that the device could do: its bytes at the
bandwidth of memory, or its operations at the rate of the fastest unit that takes its numbers,
whichever needs longer. So a product of halves is held against matrix units even where the code
path that ran leaves them idle. The share of the path holds its operations against the arithmetic
that the code path did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from vkbench.device import uncached_bytes
from vkbench_db import schema

# arithmetic path -> field of Roofs: paths without one of their own are counted in singles
_PATHS = {"f16_accumulation": "fma_f16", "int8": "dot_i8"}
# code paths whose arithmetic is another one than their accuracy says
_VARIANTS = {"int_dot": "dot_i8", "int_dot_q8_0": "dot_i8", "pairs": "fma_f16"}
# code paths by cooperative matrices -> formats of factors and sums, as calibrated
_BY_MATRICES = {
    "coopmat": "f16_f32",
    "coopmat_f16": "f16_f16",
    "coopmat_bf16": "bf16_f32",
    "coopmat_to_bf16": "bf16_f32",
    "coopmat_i8": "i8_i32",
    "coopmat_via_q8_1": "i8_i32",
}
# numbers -> first formats of the kinds of matrices that take them: bytes are exact as halves too
_MATRICES = {"i8": ("i8", "f16"), "f16": ("f16",), "bf16": ("bf16",)}
_PLAIN = re.compile(r"(b?f|[iu])\d+(_\w+)?")  # formats of single numbers: f16, i32, f8_e4m3
_BYTES = "q8_1"  # vectors in blocks of bytes
# q8_0 counts as bytes only as vectors x: as values of attention it is unpacked to halves
_X_IN_BYTES = "x=q8_0"

Place = tuple[int, str]  # device, hash of the environment


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """What a device reaches; None where that was not measured."""

    read_bytes: float | None = None  # a second, as are all of these
    copy_bytes: float | None = None
    fma_f32: float | None = None
    fma_f16: float | None = None
    dot_i8: float | None = None
    matrices: Mapping[str, float] = field(default_factory=dict)  # by formats: f16_f32
    llc_bytes: int = 0  # last-level cache, 0 where unknown
    is_cpu: bool = False  # its rates change with what else the processor does

    def take_better(self, other: Roofs) -> Roofs:
        """The better of both, rate by rate."""

        def better(one: float | None, two: float | None) -> float | None:
            return max(filter(None, (one, two)), default=None)

        kinds = {*self.matrices, *other.matrices}
        return replace(
            self,
            read_bytes=better(self.read_bytes, other.read_bytes),
            copy_bytes=better(self.copy_bytes, other.copy_bytes),
            fma_f32=better(self.fma_f32, other.fma_f32),
            fma_f16=better(self.fma_f16, other.fma_f16),
            dot_i8=better(self.dot_i8, other.dot_i8),
            matrices={
                kind: max(self.matrices.get(kind, 0.0), other.matrices.get(kind, 0.0))
                for kind in kinds
            },
        )

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second to and from memory."""
        return max(filter(None, (self.read_bytes, self.copy_bytes)), default=None)

    def path_peak(self, path: str, variant: str = "") -> float | None:
        """Operations a second of an arithmetic path, as a code path of any settings does it."""
        variant = variant.partition(":")[0]
        kind = _BY_MATRICES.get(variant, variant)
        if kind in self.matrices:
            return self.matrices[kind]
        name = _VARIANTS.get(variant) or _PATHS.get(path, "fma_f32")
        peak: float | None = getattr(self, name)
        return peak

    def peak(self, load: RoofLoad) -> float | None:
        """Operations a second of the fastest unit that takes the numbers of a launch."""
        firsts = _MATRICES.get(load.numbers, ())
        rates = [rate for kind, rate in self.matrices.items() if kind.split("_")[0] in firsts]
        return max(filter(None, (*rates, self.path_peak(load.path, load.variant))), default=None)


@dataclass(frozen=True, kw_only=True)
class RoofLoad:
    """The bytes, operations and number types of a launch, and how it was timed."""

    bytes_moved: int
    flops: int
    numbers: str = ""  # that it multiplies, as `numbers_of` has them
    path: str = ""  # arithmetic path
    variant: str = ""  # code path
    is_cold: bool = False  # nothing of the launch before is left in a cache
    kernel: str = ""


def numbers_of(format: str, types: str = "") -> str:
    """The narrowest numbers that matrix units could multiply: i8, f16, bf16, or "" for others.

    `format` is the case's first: weights, keys, the left matrix; `types` are the other bindings'
    ("x=q8_1"). Blocks of weights are unpacked to bytes beside vectors of bytes, else to halves.
    """
    if _PLAIN.fullmatch(format):
        return format if format in ("f16", "bf16") else ""
    pairs = types.split(",")
    others = {pair.partition("=")[2] for pair in pairs}
    return "i8" if _BYTES in others or _X_IN_BYTES in pairs else "f16"


def roof_fraction(load: RoofLoad, seconds: float, roofs: Roofs | None) -> float | None:
    """The share of the roof; None where the calibration does not say what limits the launch.

    It does not where the buffers may stay in a cache and moving them from memory would take longer
    than the operations: no bandwidth of a cache is measured.
    """
    if roofs is None or seconds <= 0:
        return None
    moving = _least(load.bytes_moved, roofs.bandwidth)
    computing = _least(load.flops, roofs.peak(load))
    if moving is None or computing is None or not (least := max(moving, computing)):
        return None
    return None if least == moving and not is_from_memory(load, roofs) else least / seconds


def path_fraction(load: RoofLoad, seconds: float, roofs: Roofs | None) -> float | None:
    """The share of what the code path's own arithmetic could do."""
    if roofs is None or seconds <= 0:
        return None
    computing = _least(load.flops, roofs.path_peak(load.path, load.variant))
    return computing / seconds if computing else None


def newest(tx: Connection, places: Iterable[Place]) -> dict[Place, Roofs]:
    """The last calibration of each device and environment, where there is one."""
    table, by_device = schema.calibration.c, {}
    for number, environment in sorted(set(places)):
        row = tx.execute(
            _select_calibrations()
            .where(table.device_id == number, table.environment == environment)
            .order_by(table.measured_at.desc(), table.id.desc())
            .limit(1)
        ).first()
        if row:
            by_device[number, environment] = _roofs(row)
    return by_device


def best(tx: Connection, devices: Iterable[int]) -> dict[int, Roofs]:
    """The best of all calibrations of each device, rate by rate, whatever its environment was.

    One that was made while the device was throttled says nothing of what the device can do.
    """
    by_device: dict[int, Roofs] = {}
    for number in sorted(set(devices)):
        for row in tx.execute(
            _select_calibrations().where(schema.calibration.c.device_id == number)
        ):
            roofs = _roofs(row)
            by_device[number] = (
                by_device[number].take_better(roofs) if number in by_device else roofs
            )
    return by_device


def _select_calibrations() -> Select[*tuple[Any, ...]]:
    table, device = schema.calibration.c, schema.device.c
    return select(
        *(table.read_bytes, table.copy_bytes, table.fma_f32, table.fma_f16),
        *(table.dot_i8, table.matrices, device.facts),
    ).join(schema.device, device.id == table.device_id)


def _roofs(row: Row[*tuple[Any, ...]]) -> Roofs:
    rates = {name: rate for name, rate in row._mapping.items() if name != "facts"}
    facts = row.facts
    is_cpu = facts.get("type") == "cpu"
    return Roofs(**rates, llc_bytes=facts.get("llc_bytes", 0), is_cpu=is_cpu)


def _least(amount: int, rate: float | None) -> float | None:
    """The least seconds for an amount at a rate; None if the rate is not known."""
    if not amount:
        return 0.0
    return amount / rate if rate else None


def is_from_memory(load: RoofLoad, roofs: Roofs) -> bool:
    """Whether each launch has to fetch its bytes from memory again."""
    return load.is_cold or 0 < uncached_bytes(roofs.llc_bytes) <= load.bytes_moved
