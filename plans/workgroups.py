"""Targets about the sizes of workgroups, by the fastest configurations that sweeps found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from plans.evidence import Evidence, Find, TargetResult, met, not_measured
from vkbench.configuration import Configuration, parse
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench_shaders.catalogue import problem
from vkbench_shaders.launch import Launch

AMD, NVIDIA, INTEL = 0x1002, 0x10DE, 0x8086  # as Vulkan numbers vendors
_NAMES = {AMD: "AMD", NVIDIA: "NVIDIA", INTEL: "Intel"}
_THREADS: Final = "THREADS"  # specialisation constant


def fastest(vendor: int, least: int, most: int) -> Find:
    """Whether workgroups of these sizes were the fastest in at least half of all cases."""

    def find(evidence: Evidence) -> TargetResult:
        sizes = Counter(_sizes(evidence, vendor))
        if not sizes:
            asked = f"`vkbench tune{evidence.submits}` times sizes of workgroups"
            return not_measured(f"no {_NAMES[vendor]} device was tuned: {asked}")
        inside = sum(count for size, count in sizes.items() if least <= size <= most)
        total = sizes.total()
        told = ", ".join(f"{size} in {count}" for size, count in sorted(sizes.items()))
        range_ = f"{least}" if least == most else f"{least} to {most}"
        return TargetResult(
            standing=met(2 * inside >= total),
            measured=f"{range_} is the fastest in {inside} of {total} cases",
            value=inside / total,
            how=f"threads of the fastest workgroups, by sweeps of `vkbench tune`: {told}",
        )

    return find


def _sizes(evidence: Evidence, vendor: int) -> Iterator[int]:
    """Size of the fastest workgroups of each case tuned on a device of a vendor, if they vary."""
    for row in evidence.tuned:
        facts = evidence.devices.get(row.device)
        if not facts or facts.vendor_id != vendor:
            continue
        try:
            size = _threads_of(row.case, parse(row.configuration), facts)
        except VkbenchError:  # a kernel of a user, or a setting that is no more
            continue
        if size:
            yield size


def _threads_of(case: str, configuration: Configuration, device: DeviceFacts) -> int | None:
    """Threads of a workgroup in the first dispatch; None where the shader fixes them."""
    posed = replace(problem(case), settings=configuration.settings)
    launches = posed.kernel.variant(configuration.variant).launch(posed, device)
    first = launches if isinstance(launches, Launch) else launches[0]
    return first.constants.get(_THREADS)
