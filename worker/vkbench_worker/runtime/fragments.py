"""Tries which lane holds which element of a cooperative matrix, as Vulkan does not say.

Attention's highest scores and factors of the next product, and weights that lanes decode, stay in
registers where the order is one that shaders know (FRAGMENTS in slang/lib/fragment_order.slang);
elsewhere they pass through shared memory.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import VkbenchError
from vkbench_shaders import bundle
from vkbench_worker.runtime.device import Device, Dispatch
from vkbench_worker.runtime.program import Program

CONSTANT: Final = 98  # of slang/lib/fragment_order.slang
_ELEMENTS: Final = 8  # of a lane in fragments.slang
# device feature -> side of the matrices, lanes of a subgroup; the first one that a device has
_SIZES: Final = {"matrix_f16_f32": (16, 32), "matrix_f16_f32_8x8x8": (8, 8)}
_NEEDED: Final = {"coopmat", "fp16"}

Floats = NDArray[np.float32]


UNKNOWN: Final = 0
COLUMNS: Final = 2
QUADS: Final = 10


def order(device: Device) -> int:
    """The order of a device's sums and left factors; UNKNOWN, where it cannot be tried."""
    features = set(device.facts.features)
    side, lanes = next((_SIZES[name] for name in _SIZES if name in features), (0, 0))
    if not features >= _NEEDED or device.facts.subgroup_size != lanes:
        return UNKNOWN
    try:
        unit = bundle.FRAGMENTS[side].key
        code, sha = bundle.packaged().code(unit), bundle.packaged().entry(unit).sha256
    except VkbenchError:  # kernels that are not built, or of an older package
        return UNKNOWN
    return order_of(*places(device, code, side, sha))


def order_of(sums: Floats, left: Floats) -> int:
    """The order in which these are the places of elements of sums and of left factors."""
    for number, places_of in ((COLUMNS, columns()), (QUADS, quads())):
        if all(np.array_equal(measured, places_of) for measured in (sums, left)):
            return number
    return UNKNOWN


def quads() -> Floats:
    """Row * 16 + column of each lane's elements: four lanes share two rows."""
    lane, element = np.ogrid[:32, :_ELEMENTS]
    row = lane // 4 + element // 4 * 8
    column = lane % 4 * 2 + element % 2 + element // 2 % 2 * 8
    numbers: Floats = (row * 16 + column).astype(np.float32)
    return numbers


def columns() -> Floats:
    """Row * 8 + column of each lane's elements: a lane has a column."""
    lane, element = np.ogrid[:8, :_ELEMENTS]
    return (element * 8 + lane).astype(np.float32)


def places(device: Device, code: bytes, side: int, sha: str) -> Floats:
    """Where a device keeps elements: of sums, then of left factors."""
    program = Program(code=code, sha=sha, bindings=(0, 1), push_bytes=0, constants=())
    numbers = np.arange(side * side, dtype=np.float32)
    with ExitStack() as stack:
        x, y = device.buffer(numbers.nbytes), device.buffer(2 * numbers.nbytes)
        stack.callback(x.close)
        stack.callback(y.close)
        x.upload(numbers)
        recording = device.record([Dispatch(device.pipeline(program), [x, y], (1, 1, 1), b"")])
        stack.callback(recording.close)
        recording.run()
        (image,) = device.images([y])
    elements: Floats = image.data.view(np.float32).reshape(2, -1, _ELEMENTS)
    return elements
