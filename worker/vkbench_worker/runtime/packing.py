"""Tries whether a device packs halves with rounding to nearest even, as Vulkan does not promise.

Where it does, shaders take one instruction instead of a dozen (DEVICE_PACKS in words.slang), which
is half of the time of an element-wise kernel that stores halves. Beside all halves, what is tried
is what lies in the middle between two and next to there. CPU drivers gain nothing and are not
asked.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import VkbenchError
from vkbench_shaders.bundle import PACKING, packaged
from vkbench_worker.runtime.device import Device, Dispatch
from vkbench_worker.runtime.program import Program

CONSTANT: Final = 99  # of words.slang
_THREADS: Final = 64  # of packing.slang
_LARGEST: Final = 0x7BFF  # the largest half


def rounds_to_nearest(device: Device) -> bool:
    """Whether it packs all that is tried as IEEE 754 rounds; no, where it cannot be tried."""
    if device.facts.type == "cpu":
        return False
    try:
        code = packaged().code(PACKING.key)
    except VkbenchError:  # kernels that are not built, or of an older package
        return False
    values = tried_values()
    halves = pack_on_device(device, code, values)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float16)
    alike = halves.view(np.uint16) == expected.view(np.uint16)
    return bool(np.all(alike | np.isnan(halves) & np.isnan(expected)))


def tried_values() -> NDArray[np.float32]:
    """Every half, what lies between two, and what is none."""
    halves = np.arange(_LARGEST + 1, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves + np.append(halves[1:], np.float32(65536))) / 2
    zero, far = np.float32(0), np.float32(1e9)
    nexts = np.nextafter(middles, zero), np.nextafter(middles, far)
    odd = np.array([np.inf, np.nan, 1e9, 3e38, 1e-40], np.float32)
    sizes = np.concatenate([halves, middles, *nexts, odd])
    values = np.concatenate([sizes, -sizes])
    return np.resize(values, -(-values.size // (2 * _THREADS)) * 2 * _THREADS)


def pack_on_device(device: Device, code: bytes, values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Values as a device packs them."""
    program = Program(code=code, sha="", bindings=(0, 1), push_bytes=0, constants=())
    with ExitStack() as stack:
        x, y = device.buffer(values.nbytes), device.buffer(values.nbytes // 2)
        stack.callback(x.close)
        stack.callback(y.close)
        x.upload(values)
        groups = (values.size // (2 * _THREADS), 1, 1)
        recording = device.record([Dispatch(device.pipeline(program), [x, y], groups, b"")])
        stack.callback(recording.close)
        recording.run()
        (image,) = device.images([y])
    return image.data.view(np.float16)
