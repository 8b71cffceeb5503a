"""Which kernels a device checks the bounds of: all of a job that runs another bundle's.

The packaged kernels are ours, and timed as they are. Both sides of a pair are timed alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vkbench.result import BOUNDS_CHECKED, Result
from vkbench.settings import Settings, settings
from vkbench_shaders.bundle import Bundle, packaged_sha

CHECKED: Final = "timed with bounds checked (VKBENCH_ROBUST)"  # a warning of timings


def checks_bounds(*bundles: Bundle) -> bool:
    """Whether a device shall check bounds in a job that runs these; it does for all or for none."""
    return settings().robust and any(bundle.sha != packaged_sha() for bundle in bundles)


def opening(settings: Settings, bundle: Bundle) -> Settings:
    """The settings to open a device with that runs this bundle alone.

    Some devices check the bounds of all kernels or of none: for the packaged ones they check none.
    """
    return replace(settings, robust=checks_bounds(bundle))


def note_bounds_checked(result: Result) -> Result:
    """The result of a job in which bounds were checked, with a word on it: that takes time."""
    timings = [replace(timing, warnings=(*timing.warnings, CHECKED)) for timing in result.timings]
    figures = {**result.telemetry, BOUNDS_CHECKED: 1.0}
    return replace(result, timings=tuple(timings), telemetry=figures)
