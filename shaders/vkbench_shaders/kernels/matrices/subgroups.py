"""The smallest subgroup size that products must add up partial sums for."""

from __future__ import annotations

from typing import Final

from vkbench.device import NVIDIA, DeviceFacts

# threads: CPU drivers whose subgroups have fewer compile code for several blocks for 10 s
FEWEST: Final = 8
_SMALLER = 8  # threads of the subgroups that drivers may run though they report larger ones


def least_threads(device: DeviceFacts) -> int:
    """Of a subgroup, as small as the driver may run it."""
    if device.vendor_id == NVIDIA:
        return device.subgroup_size
    return min(device.subgroup_size, _SMALLER)
