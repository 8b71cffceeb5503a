"""Rough rates of a device, by which kernels estimate their fastest configuration.

The file of a class of devices has these numbers; the device says how many compute units it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from vkbench.device import DeviceFacts
from vkbench_shaders.tuning.classes import class_of, read_tables


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates of a device of a class, which need only order the ways to do something."""

    compute_units: int  # of a device that does not say
    fma: float  # f32 operations a second, of a compute unit
    memory_bytes: float  # a second
    launch_seconds: float  # what a launch after another takes at least
    step_seconds: float  # what a step of a workgroup takes at least: numbers come from memory
    workgroup_seconds: float  # what a workgroup takes besides

    def busy(self, on_unit: float) -> int:
        """Workgroups on the whole device, where so many are on a compute unit."""
        return max(1, round(self.compute_units * on_unit))


def rates_of(device: DeviceFacts) -> Rates:
    """The rates of a device's class, with the compute units of the device."""
    of_class = _read_rates(class_of(device).name)
    return replace(of_class, compute_units=device.compute_units or of_class.compute_units)


def busy(device: DeviceFacts, on_unit: float) -> int:
    """Workgroups that a device works on at a time, where so many are on a compute unit."""
    return rates_of(device).busy(on_unit)


@cache
def _read_rates(device_class: str) -> Rates:
    """The rates of the table that was installed on this host, or of the one that ships."""
    for table in read_tables(device_class):
        if rates := table.get("rates"):
            return Rates(**rates)
    raise LookupError(f"no rates of class {device_class} ship")
