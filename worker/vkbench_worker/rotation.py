"""Copies of a kernel's buffers to go round in, so that each launch finds its data outside the caches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Generic

from vkbench_worker.runtime.computer import B, Computer, P
from vkbench_worker.runtime.errors import OutOfMemory
from vkbench_worker.runtime.program import POISON_A, region_bytes

DEFAULT_LLC_BYTES: Final = 64 << 20  # where a device's last-level cache is not known
MOST_SETS: Final = 64  # kernels too small to fill the caches with so many get them flushed instead


@dataclass(frozen=True, kw_only=True)
class Rotation(Generic[B]):
    """Sets of buffers, each of them what one launch binds."""

    sets: Sequence[Sequence[B]]
    scratch: B | None  # filled before each round where the sets alone do not displace the caches
    warnings: tuple[str, ...]


def rotation(
    device: Computer[P, B], buffers: Sequence[B], outputs: Sequence[bool], stack: ExitStack
) -> Rotation[B]:
    """Copies past twice the last-level cache between two uses of one set; what is new closes with the stack."""
    wanted = 2 * (device.facts.llc_bytes or DEFAULT_LLC_BYTES)
    footprint = sum(buffer.size for buffer in buffers)
    each = sum(region_bytes(buffer.size) for buffer in buffers)
    affordable = 1 + device.memory_left() // 2 // each
    count = max(1, min(-(-wanted // footprint) + 1, MOST_SETS, affordable))
    sets = [list(buffers), *(_copies(device, buffers, outputs, stack) for _ in range(count - 1))]
    if max(footprint, (count - 1) * footprint) >= wanted:
        return Rotation(sets=sets, scratch=None, warnings=())
    scratch = _scratch(device, wanted, stack)
    lacking = f"not cold: {count} sets of {footprint} bytes do not displace a cache of {wanted // 2}"
    return Rotation(sets=sets, scratch=scratch, warnings=() if scratch else (lacking,))


def _copies(
    device: Computer[P, B], buffers: Sequence[B], outputs: Sequence[bool], stack: ExitStack
) -> list[B]:
    copies = []
    for buffer, is_output in zip(buffers, outputs, strict=True):
        copy = device.buffer(buffer.size)
        stack.callback(copy.close)
        if is_output:
            copy.fill(POISON_A)
        else:
            copy.copy_from(buffer)
        copies.append(copy)
    return copies


def _scratch(device: Computer[P, B], wanted: int, stack: ExitStack) -> B | None:
    size = min(wanted, device.facts.limits["max_storage_range"])
    if size < wanted // 2 or region_bytes(size) > device.memory_left():
        return None
    try:
        scratch = device.buffer(size)
    except OutOfMemory:
        return None
    stack.callback(scratch.close)
    return scratch
