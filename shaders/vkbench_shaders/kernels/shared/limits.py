"""Reasons why a device cannot run a problem, as sentences; None where it can."""

from __future__ import annotations

from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Problem, too_large

_ADDRESSES: Final = 1 << 32  # bytes that a shader can address in a buffer


def out_of_reach(problem: Problem) -> str | None:
    """Why a shader cannot address all of an array."""
    for binding in problem.kernel.bindings:
        needed = problem.layout(binding.name).storage * problem.item_bytes(binding.name)
        if needed > _ADDRESSES:
            return f"{binding.name} has {needed} bytes, the kernel reaches {_ADDRESSES}"
    return None


def too_far(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a shader cannot address all of an array, or the device cannot bind it."""
    return out_of_reach(problem) or too_large(problem, device)


def too_much_shared(needed: int, has: int, what: str = "") -> str | None:
    """Why shared memory has no room for so many bytes."""
    if needed <= has:
        return None
    return f"{what} takes {needed} bytes of shared memory, the device has {has}".lstrip()


def fits_shared(needed: int, device: DeviceFacts) -> bool:
    """Whether a device has so many bytes of shared memory, or does not say how many it has."""
    return needed <= device.limits.get("max_shared_bytes", needed)
