"""Launches by name: what a kernel gives to a compiled unit, and the bytes that the unit takes.

The build reads each unit's interface from its SPIR-V. `pack` puts every value where the interface
has its name, and refuses a launch that leaves out a name or gives one that the unit does not have.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from vkbench.errors import VkbenchError

# A number, the numbers of a vector or an array, or the members of a structure by their names.
PushValue = int | float | Sequence[int] | Sequence[float] | Mapping[str, "PushValue"]
Push = Mapping[str, PushValue]

# Specialisation constants that the runtime sets for each device; no launch gives them.
SET_BY_RUNTIME: Final = frozenset({"DEVICE_PACKS", "FRAGMENTS"})
_CODES: Final = {
    "u8": "B",
    "i8": "b",
    "u16": "H",
    "i16": "h",
    "f16": "e",
    "u32": "I",
    "i32": "i",
    "f32": "f",
    "u64": "Q",
    "i64": "q",
    "f64": "d",
}


class LaunchMismatch(VkbenchError):
    """A launch does not give what its compiled unit takes."""


MOST_GROUPS = 65535  # along one axis: every device takes as many


def grid(groups: int, depth: int = 1) -> tuple[int, int, int]:
    """Workgroups spread over x and y, evenly: up to y - 1 of them have nothing to do."""
    rows = max(1, -(-groups // MOST_GROUPS))
    return (-(-groups // rows), rows, depth)


def power_of_two(number: int) -> int:
    """The smallest power of two that is not less than a number."""
    return 1 << max(0, number - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Flow:
    """How a kernel is timed whose launches are submissions of their own, by the host's clock.

    Its arrays have one outer index for each launch, and a launch reads and writes its own part.
    """

    in_flight: int = 64  # submissions that may wait at once, when timed hot
    moves: bool = False  # whether each part is uploaded before its launch, and read back after it


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One dispatch: how many workgroups, with which constants."""

    groups: tuple[int, int, int]
    push: Push = field(default_factory=dict)  # push constants
    constants: Mapping[str, int] = field(default_factory=dict)  # specialisation constants
    entry: str = ""  # which of the variant's stages; "": its own entry point
    subgroup_size: int = 0  # that its pipeline requires; 0: any
    full_subgroups: bool = False  # whether its pipeline requires that no subgroup is partly empty


@dataclass(frozen=True, kw_only=True)
class PackedLaunch:
    """A launch as Vulkan takes it."""

    groups: tuple[int, int, int]
    push: bytes  # the whole block of push constants
    constants: tuple[tuple[int, int], ...]  # id and value of specialisation constants, by id


@dataclass(frozen=True, kw_only=True)
class PushField:
    """A number, vector or array in a unit's block of push constants."""

    name: str  # with the structures around it: arrays.ids.offset
    type: str  # of each number: u32, i32, f32, ...
    count: int = 1  # numbers of a vector or an array
    offset: int  # bytes from the beginning of the block

    @property
    def form(self) -> struct.Struct:
        """How the constant is packed into bytes."""
        return struct.Struct(f"<{self.count}{_CODES[self.type]}")


@dataclass(frozen=True, kw_only=True)
class SpecConstant:
    """A specialisation constant of a unit."""

    name: str
    id: int
    type: str


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What a compiled unit takes from a launch."""

    push: tuple[PushField, ...] = ()  # by offset
    constants: tuple[SpecConstant, ...] = ()  # by id
    # names of the specialisation constants that are the workgroup's sizes along x, y and z;
    # "" where a size is fixed
    sized_by: tuple[str, str, str] = ("", "", "")
    # specialisation constants that the sources declare and the compiler dropped, for this unit does
    # not use them; None where the bundle does not say (manifests of version 1)
    dropped: tuple[str, ...] | None = None

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many numbers each push constant has, by offset."""
        return {constant.name: constant.count for constant in self.push}

    @cached_property
    def required(self) -> frozenset[str]:
        """Specialisation constants that every launch gives."""
        return frozenset(constant.name for constant in self.constants) - SET_BY_RUNTIME

    @cached_property
    def block(self) -> struct.Struct:
        """The block of push constants, little-endian, with its gaps."""
        form, end = "<", 0
        for constant in self.push:
            form += f"{constant.offset - end}x{constant.form.format[1:]}"
            end = constant.offset + constant.form.size
        return struct.Struct(form)


def pack(launch: Launch, interface: Interface, unit: str) -> PackedLaunch:
    """A launch as Vulkan takes it; LaunchMismatch says how it differs from the unit of this key."""
    return PackedLaunch(
        groups=launch.groups,
        push=_packed_push(launch.push, interface, unit),
        constants=_packed_constants(launch.constants, interface, unit),
    )


def _packed_push(push: Push, interface: Interface, unit: str) -> bytes:
    given = _by_whole_name(push)
    if given.keys() != interface.counts.keys():
        raise _name_mismatch(unit, "push constants", given.keys(), interface.counts.keys())
    numbers: list[float] = []
    for name, count in interface.counts.items():
        values = given[name]
        if len(values) != count:
            raise LaunchMismatch(f"{unit}: {name} has {count} numbers, the launch gives {values}")
        numbers += values
    try:
        return interface.block.pack(*numbers)
    except (struct.error, OverflowError) as error:
        raise _misfit(unit, interface, given) from error


def _packed_constants(
    constants: Mapping[str, int], interface: Interface, unit: str
) -> tuple[tuple[int, int], ...]:
    given, required, dropped = constants.keys(), interface.required, interface.dropped
    unknown = set() if dropped is None else given - required - set(dropped)
    if unknown or required - given:
        raise _name_mismatch(unit, "specialisation constants", required & given | unknown, required)
    return tuple((c.id, int(constants[c.name])) for c in interface.constants if c.name in required)


def _by_whole_name(push: Push) -> dict[str, Sequence[float]]:
    """The numbers of each field, by its name with the structures around it."""
    numbers_by_name: dict[str, Sequence[float]] = {}
    for name, value in push.items():
        if isinstance(value, int | float):
            numbers_by_name[name] = (value,)
        elif isinstance(value, Mapping):
            for inner, numbers in _by_whole_name(value).items():
                numbers_by_name[f"{name}.{inner}"] = numbers
        else:
            numbers_by_name[name] = value
    return numbers_by_name


def _name_mismatch(unit: str, what: str, given: Set[str], expected: Set[str]) -> LaunchMismatch:
    """One line with the names that a launch lacks, and those that its unit does not have."""
    lacking, unknown = ", ".join(sorted(expected - given)), ", ".join(sorted(given - expected))
    return LaunchMismatch(
        f"{unit}: {what} that the launch does not give: {lacking or 'none'}; "
        f"that it gives and the unit does not have: {unknown or 'none'}"
    )


def _misfit(
    unit: str, interface: Interface, given: Mapping[str, Sequence[float]]
) -> LaunchMismatch:
    """Which number its type cannot hold."""
    for constant in interface.push:
        try:
            constant.form.pack(*given[constant.name])
        except (struct.error, OverflowError) as error:
            shown = ", ".join(map(str, given[constant.name]))
            return LaunchMismatch(
                f"{unit}: {constant.name} is {constant.type}, not {shown}: {error}"
            )
    return LaunchMismatch(f"{unit}: the push constants do not fit their block")


MOST_DIVIDED = 1 << 31  # numbers below it are divided exactly by `divisor`


def divisor(number: int) -> dict[str, int]:
    """Push constants by which a shader divides by a number: slang/lib/division.slang."""
    shift = (number - 1).bit_length()
    return {"number": number, "multiplier": -(-(1 << (31 + shift)) // number), "shift": shift}
