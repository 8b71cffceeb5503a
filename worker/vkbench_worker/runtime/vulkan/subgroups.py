"""The subgroup size that a pipeline requires, where the driver may choose and code relies on it.

Vulkan reports one subgroup size for a device, and shaders read that size. A driver whose device
supports several sizes may still run a pipeline with a smaller one: Intel's driver reports 32, runs
8 or 16, and numbers the subgroups of a workgroup by the size that it runs. A pipeline that requires
a size gets it.
"""

from __future__ import annotations

from vkbench_shaders.compile.reflection import counts_on_subgroups, width
from vkbench_worker.runtime.discovery.physical import Physical
from vkbench_worker.runtime.program import Program


def required_size(physical: Physical, program: Program) -> int:
    """The subgroup size that a program's pipeline has to require; 0 for none."""
    if program.subgroup_size:
        return program.subgroup_size
    if "subgroup_size_control" not in physical.features.members:
        return 0
    reported = physical.subgroup_size
    least, most, subgroups = physical.subgroup_range()
    if least == most or not least <= reported <= most:
        return 0
    # a workgroup of any size has to have room for its subgroups
    fits = reported * subgroups >= physical.limits()["max_workgroup_invocations"]
    return reported if fits and counts_on_subgroups(program.code) else 0


def are_whole(physical: Physical, program: Program, size: int) -> bool:
    """Whether a pipeline requires that all its subgroups are full: it is told to, or may."""
    if program.full_subgroups or not size:
        return program.full_subgroups
    threads = width(program.code, dict(program.constants))
    return "full_subgroups" in physical.features.members and threads % size == 0
