"""Sizes of workgroups: those that kernels may be tuned by, and powers of two."""

from __future__ import annotations

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Param, Problem, Settings, Tuning

SIZES = (64, 128, 256, 512, 1024)
THREADS = Param(
    default=0,
    choices=(0, *SIZES),
    description="threads of a workgroup; 0: what should be fastest",
)


def tuning(usual: int) -> Tuning:
    """Any of the sizes that a device takes; `usual` without tuning, or the largest below it."""

    def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
        most = device.limits.get("max_workgroup_invocations", usual)
        sizes = [size for size in SIZES if size <= most]
        sizes.sort(key=lambda size: (size > usual, abs(size - usual)))
        return [{"threads": size} for size in sizes]

    return Tuning(params=("threads",), candidates=candidates)


def power_of_two(number: int) -> int:
    """The smallest one that is not less."""
    return 1 << max(0, number - 1).bit_length()
