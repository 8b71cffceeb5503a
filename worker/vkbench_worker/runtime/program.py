"""What devices make pipelines of, and what they show of buffers: programs, images, guard bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from vkbench_shaders.bundle import Entry
from vkbench_shaders.kernel import Problem
from vkbench_shaders.launch import Interface

GUARD: Final = 4096  # bytes kept before and after every buffer, to catch writes outside it
ALIGNMENT: Final = 256  # of every buffer; no device asks for more
# Bit patterns that are NaN as f32, f16 and bf16 alike, and differ from each other in every byte.
POISON_A: Final = 0x7FC07FC0
POISON_B: Final = 0xFFE1FFE1
# what fills scratch meanwhile: an output that holds it was written, from scratch that was not
SCRATCH_POISON: Final[Mapping[int, int]] = {POISON_A: 0xFFF5FFF5, POISON_B: 0x7FD57FD5}

Bytes = np.ndarray  # of uint8


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a stranger's bundle says of its code."""

    entry: Entry
    interface: Interface


@dataclass(frozen=True, kw_only=True)
class Program:
    """SPIR-V and the layout it is launched with; the problem says what it should compute."""

    code: bytes
    sha: str  # SHA-256 of the code
    bindings: tuple[int, ...]  # numbers, one for each buffer of a launch
    push_bytes: int
    constants: tuple[tuple[int, int], ...]  # specialisation constant, value
    problem: Problem | None = None  # that it solves; none where something is tried out
    claims: Claims | None = None  # to be checked before a driver has the code; None: it is trusted
    is_last: bool = True  # of the launches that solve the problem
    checks_bounds: bool = False  # accesses outside the buffers, guards included, reach nothing
    subgroup_size: int = 0  # that its pipeline requires; 0: any
    full_subgroups: bool = False  # whether its pipeline requires that no subgroup is partly empty

    @property
    def key(self) -> tuple[object, ...]:
        """Two programs of one key are one pipeline."""
        strangers = (self.checks_bounds, self.claims)
        subgroups = (self.subgroup_size, self.full_subgroups)
        return (self.sha, self.bindings, self.push_bytes, self.constants, *strangers, *subgroups)


@dataclass(frozen=True)
class Image:
    """The bytes of a buffer and of its guard bands, as they were at one moment."""

    lead: Bytes
    data: Bytes  # empty where only the guards were asked for
    trail: Bytes
    poison: int = field(default=POISON_A)  # fills guards, and outputs before the launch


def pad_size(size: int, unit: int = ALIGNMENT) -> int:
    """`size` rounded up to whole units."""
    return -(-size // unit) * unit


def region_bytes(size: int) -> int:
    """Bytes that a buffer of `size` takes with both guard bands."""
    return GUARD + pad_size(pad_size(size, 4) + GUARD)
