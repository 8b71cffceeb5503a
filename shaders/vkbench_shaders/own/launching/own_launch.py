"""One dispatch of a user's kernel, as its author's machine worked it out for all devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from vkbench.device import SUBGROUP_LIMITS, DeviceFacts

_KIB: Final = 1 << 10
_THREADS: Final = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048)
_GROUPS: Final = (65535, (1 << 31) - 1, (1 << 32) - 1)
LIMITS: Final[Mapping[str, tuple[int, ...]]] = {
    "max_shared_bytes": tuple(size * _KIB for size in (16, 32, 48, 64, 96, 128, 160, 224)),
    "max_workgroup_invocations": _THREADS[1:],
    "max_workgroup_size_x": _THREADS[1:],
    "max_workgroup_size_y": _THREADS[1:],
    "max_workgroup_size_z": _THREADS,
    "max_groups_x": _GROUPS,
    "max_groups_y": _GROUPS,
    "max_groups_z": _GROUPS,
    "max_storage_range": (*(1 << bits for bits in range(27, 31)), (1 << 31) - 1, (1 << 32) - 1),
    "max_push_bytes": (128, 256),
    "storage_alignment": tuple(1 << bits for bits in range(9)),
}
"""Limits that formulas may name, and the sizes of each that launches are worked out for."""


@dataclass(frozen=True, kw_only=True)
class LimitedLaunch:
    """The launch of devices whose limits are at least these."""

    least: Mapping[str, int]
    launch: OwnLaunch

    def fits(self, device: DeviceFacts) -> bool:
        """Whether a device has all of these limits."""
        return all(device.limits.get(name, 0) >= size for name, size in self.least.items())


@dataclass(frozen=True, kw_only=True)
class OwnLaunch:
    """One dispatch of a case by a variant."""

    groups: tuple[int, int, int]
    push: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)  # as 32 bits
    subgroup_size: int = 0  # that its pipeline requires of a device; 0: any
    full_subgroups: bool = False  # whether it requires that no subgroup is partly empty
    # the same by the size of a device's subgroups, where it depends on that: no device runs another
    by_subgroup: Mapping[int, OwnLaunch] = field(default_factory=dict)
    # the same by a device's limits, where it depends on them: the first that fits counts
    by_limits: tuple[LimitedLaunch, ...] = ()
    refusal: str = ""  # why it is for no device, or for none with these limits

    def refuses(self, device: DeviceFacts) -> str | None:
        """Why a device has not the subgroups and limits that it is for; None where it has."""
        size, here = self.subgroup_size, device.subgroup_size
        least, most = (device.limits.get(name, 0) for name in SUBGROUP_LIMITS)
        if size and not least <= size <= most:
            return f"requires subgroups of {size}, and {device.name} has those of " + (
                f"{least} to {most}" if least < most else str(least or here)
            )
        if self.by_subgroup and here not in self.by_subgroup:
            known = ", ".join(map(str, sorted(self.by_subgroup)))
            return f"is declared for subgroups of {known}, and {device.name} has those of {here}"
        return self._of_subgroups(device)._refuses_limits(device)

    def on(self, device: DeviceFacts) -> OwnLaunch:
        """The launch on a device that it does not refuse.

        A driver that may choose among sizes has to take the one that the launch is worked out for.
        """
        launch = self._of_subgroups(device)
        if launch.by_limits:
            launch = next(one.launch for one in launch.by_limits if one.fits(device))
        least, most = (device.limits.get(name, 0) for name in SUBGROUP_LIMITS)
        if not self.by_subgroup:
            return launch
        return replace(launch, subgroup_size=device.subgroup_size if least < most else 0)

    def _of_subgroups(self, device: DeviceFacts) -> OwnLaunch:
        return self.by_subgroup[device.subgroup_size] if self.by_subgroup else self

    def _refuses_limits(self, device: DeviceFacts) -> str | None:
        if not self.by_limits:
            return self.refusal or None
        names = sorted({name for one in self.by_limits for name in one.least})
        has = ", ".join(f"{name} {device.limits.get(name, 'unknown')}" for name in names)
        fitting = next((one.launch for one in self.by_limits if one.fits(device)), None)
        if fitting is None:
            return f"is declared for larger limits, and {device.name} has {has}"
        return f"{fitting.refusal}, and {device.name} has {has}" if fitting.refusal else None
