"""How many threads subgroups shall have, where a driver may choose and code relies on the number.

Shaders and launches are told one size. Drivers of devices that have several may run smaller
subgroups all the same: Intel's tells 32 and runs 8 or 16, and counts subgroups by what it runs. A
pipeline that requires the size gets it.
"""

from __future__ import annotations

from typing import Final

from vkbench_shaders.compile.reflection import counts_on_subgroups, width
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.physical import Physical
from vkbench_worker.runtime.program import Program

_PROPERTIES: Final = 1000225000  # VkPhysicalDeviceSubgroupSizeControlProperties


def required(physical: Physical, program: Program) -> int:
    """Threads that a program's subgroups have to have; 0 where there is nothing to require."""
    if "subgroup_size_control" not in physical.features.members:
        return 0
    told = physical.subgroup_size
    least, most, subgroups, stages = physical.numbers(_PROPERTIES, 4)
    has_others = least <= told <= most and least < most
    # a workgroup of any size has to have room for its subgroups
    fits = told * subgroups >= physical.limits()["max_workgroup_invocations"]
    if has_others and fits and stages & vk.COMPUTE_SHADER and counts_on_subgroups(program.code):
        return told
    return 0


def are_whole(physical: Physical, program: Program, size: int) -> bool:
    """Whether a pipeline may ask that no subgroup of this size lacks threads."""
    threads = width(program.code, dict(program.constants))
    return "full_subgroups" in physical.features.members and threads % size == 0
