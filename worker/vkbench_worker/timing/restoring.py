"""Gives each launch its inputs unchanged, for kernels that overwrite them.

Such launches go round in sets of buffers, hot ones in sets that share all but what is changed.
Before each recording, outside its timestamps, copies on the device bring the inputs of its sets
back. So a sample holds no copy and no launch over another's output, and what is judged after the
timing is what one launch left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import numpy as np

from vkbench.result import NOT_COLD
from vkbench_worker.runtime.device import Buffer, Device
from vkbench_worker.runtime.program import POISON_A, region_bytes
from vkbench_worker.timing.rotation import DEFAULT_LLC_BYTES, MOST_SETS, Rotation, flushing

_RING_SHARE: Final = 2  # hot sets take one part in so many of the last-level cache


def ring(
    device: Device,
    buffers: Sequence[Buffer],
    inputs: Mapping[int, np.ndarray],
    launches: int,
    stack: ExitStack,
) -> Rotation:
    """Sets for hot launches, so few that what changes stays in the caches; closes with the stack.

    `inputs` are what each launch has to find, by their places among the buffers.
    """
    originals = _originals(device, buffers, inputs, stack)
    set_bytes = sum(region_bytes(buffers[place].size) for place in originals)
    room = (device.facts.llc_bytes or DEFAULT_LLC_BYTES) // _RING_SHARE
    room = min(room, device.memory_left() // 2)
    count = max(1, min(launches, MOST_SETS, room // set_bytes))
    others = [_beside(device, buffers, originals, stack) for _ in range(count - 1)]
    return Rotation(sets=[buffers, *others], launches=count, originals=originals)


def restored_rotation(
    device: Device,
    rotation: Rotation,
    inputs: Mapping[int, np.ndarray],
    stack: ExitStack,
) -> Rotation:
    """A rotation of cold launches whose inputs come back; caches are overwritten behind that."""
    if not inputs:
        return rotation
    originals = _originals(device, rotation.sets[0], inputs, stack)
    scratch = rotation.scratch or flushing(device, stack)
    warnings = rotation.warnings
    if scratch is None and not warnings:
        warnings = (f"{NOT_COLD}: no memory to displace what was copied before each sample",)
    return replace(rotation, originals=originals, scratch=scratch, warnings=warnings)


def _originals(
    device: Device,
    buffers: Sequence[Buffer],
    inputs: Mapping[int, np.ndarray],
    stack: ExitStack,
) -> dict[int, Buffer]:
    originals = {}
    for place, array in inputs.items():
        originals[place] = _make_buffer(device, buffers[place].size, stack)
        originals[place].upload(array)
    return originals


def _beside(
    device: Device, buffers: Sequence[Buffer], places: Mapping[int, Buffer], stack: ExitStack
) -> Sequence[Buffer]:
    """A set of the same buffers, but for those at some places."""
    others = list(buffers)
    for place in places:
        others[place] = _make_buffer(device, buffers[place].size, stack)
        others[place].fill(POISON_A)
    return others


def _make_buffer(device: Device, size: int, stack: ExitStack) -> Buffer:
    made = device.buffer(size)
    stack.callback(made.close)
    return made
