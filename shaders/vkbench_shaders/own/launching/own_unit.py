"""The code of one dispatch of a user's kernel, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vkbench_shaders.bundle import Entry
from vkbench_shaders.launch import Interface
from vkbench_shaders.own.interfaces import Taken


@dataclass(frozen=True, kw_only=True)
class OwnUnit:
    """A variant's code, and what it takes from a launch."""

    code: bytes  # without names
    entry: Entry
    interface: Interface
    features: tuple[str, ...]  # of a device: those declared, and those that its capabilities need
    by: str  # the compiler
    taken: Taken
    used: frozenset[int]  # numbers of the arrays, and behind them scratch, that it has
    uniform: frozenset[int]  # those of them that it reads as uniform buffers


def workgroup(unit: OwnUnit, constants: Mapping[str, int]) -> tuple[int, int, int]:
    """Threads along each axis with these specialisation constants."""
    sizes = zip(unit.interface.sized_by, unit.entry.local_size or (1, 1, 1), strict=True)
    x, y, z = (constants.get(name, size) if name else size for name, size in sizes)
    return x, y, z
