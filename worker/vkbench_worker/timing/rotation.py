"""Copies of a kernel's buffers, used in turn so that each launch finds cold caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from vkbench.device import uncached_bytes
from vkbench.result import NOT_COLD
from vkbench_worker.runtime.device import Barrier, Buffer, Copy, Device, Recording, Step
from vkbench_worker.runtime.errors import OutOfMemory
from vkbench_worker.runtime.program import region_bytes

DEFAULT_LLC_BYTES: Final = 64 << 20  # where a device's last-level cache is not known
MOST_SETS: Final = 64  # kernels too small to fill the caches with so many get them flushed instead
_MOST_FLUSHED: Final = 4 << 30  # bytes of sets beside which caches are flushed; one set at least


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """Sets of buffers, each of them what one launch binds."""

    sets: Sequence[Sequence[Buffer]]
    launches: int  # in one sample; divides the number of sets
    scratch: Buffer | None = (
        None  # filled before each sample where the sets alone do not displace the caches
    )
    warnings: tuple[str, ...] = ()
    # by place in a set: what a launch changes there, to be copied back before the next
    originals: Mapping[int, Buffer] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A recording before each run of which its sets get their inputs back."""

    restoring: Recording
    timed: Recording

    def run(self) -> list[float]:
        """Seconds of the timed recording alone."""
        self.restoring.enqueue()
        return self.timed.run()

    def enqueue(self) -> None:
        """Run with the next submission."""
        self.restoring.enqueue()
        self.timed.enqueue()

    def seconds(self) -> list[float]:
        """What the last run gave."""
        return self.timed.seconds()

    def close(self) -> None:
        """Close both recordings, the timed and the restoring one."""
        self.timed.close()
        self.restoring.close()


def restoring(rotation: Rotation, sets: Sequence[Sequence[Buffer]]) -> list[Step]:
    """Steps that bring back what launches over these sets of a rotation change."""
    copies = [
        Copy(original, buffers[place])
        for buffers in sets
        for place, original in rotation.originals.items()
    ]
    return [Barrier(), *copies, Barrier()]


def rotation(
    device: Device,
    buffers: Sequence[Buffer],
    fills: Sequence[int | None],
    launches: int,
    moved: int,
    stack: ExitStack,
) -> Rotation:
    """Sets past twice the last-level cache between two uses of one; they close with the stack.

    As many sets as make whole samples of at least `launches`, or one sample of all of them.
    `fills` says what the others' buffers are filled with; None: they hold what these hold. A launch
    may touch few of its buffers' bytes, such as some rows of a table: so many are `moved`.
    """
    displaced = uncached_bytes(device.facts.llc_bytes or DEFAULT_LLC_BYTES)
    footprint = sum(buffer.size for buffer in buffers)
    touched = min(footprint, moved) or footprint
    set_bytes = sum(region_bytes(buffer.size) for buffer in buffers)
    affordable = 1 + device.memory_left() // 2 // set_bytes
    needed = 1 if touched >= displaced else -(-displaced // touched) + 1
    if needed <= min(MOST_SETS, affordable):
        samples, launches = _samples(max(2, needed), launches, affordable)
        if sets := _sets(device, buffers, fills, samples * launches, stack):
            return Rotation(sets=sets, launches=launches)
        launches = 1  # other programs have what seemed to be left
    count = min(launches, MOST_SETS, affordable, max(1, _MOST_FLUSHED // set_bytes))
    scratch = flushing(device, stack)
    sets = _sets(device, buffers, fills, count, stack) or [buffers]
    lacking = f"{NOT_COLD}: no memory to displace a cache of {displaced // 2} bytes"
    is_cold = scratch or touched >= displaced
    return Rotation(
        sets=sets, launches=len(sets), scratch=scratch, warnings=() if is_cold else (lacking,)
    )


def _samples(needed: int, launches: int, affordable: int) -> tuple[int, int]:
    """(samples in a round, launches in a sample): the sets that are needed, in whole samples."""
    samples = max(1, needed // launches)
    launches = -(-needed // samples)
    return (samples, launches) if samples * launches <= affordable else (min(needed, affordable), 1)


def _sets(
    device: Device,
    buffers: Sequence[Buffer],
    fills: Sequence[int | None],
    count: int,
    stack: ExitStack,
) -> list[Sequence[Buffer]]:
    """So many sets, these buffers among them; none where the device has no memory for them."""
    with ExitStack() as made:
        try:
            copies = [_copies(device, buffers, fills, made) for _ in range(count - 1)]
        except OutOfMemory:
            return []
        stack.enter_context(made.pop_all())
    return [buffers, *copies]


def _copies(
    device: Device, buffers: Sequence[Buffer], fills: Sequence[int | None], stack: ExitStack
) -> list[Buffer]:
    copies = []
    for buffer, fill in zip(buffers, fills, strict=True):
        copy = device.buffer(buffer.size)
        stack.callback(copy.close)
        if fill is None:
            copy.copy_from(buffer)
        else:
            copy.fill(fill)
        copies.append(copy)
    return copies


def flushing(device: Device, stack: ExitStack) -> Buffer | None:
    """A buffer whose filling displaces the caches, if there is memory for it."""
    displaced = uncached_bytes(device.facts.llc_bytes or DEFAULT_LLC_BYTES)
    size = min(displaced, device.facts.limits["max_storage_range"])
    if size < displaced // 2 or region_bytes(size) > device.memory_left():
        return None
    try:
        scratch = device.buffer(size)
    except OutOfMemory:
        return None
    stack.callback(scratch.close)
    return scratch
