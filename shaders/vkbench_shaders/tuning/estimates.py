"""Estimates of thresholds for a class of devices that measured none, from its calibration.

The thresholds of `any.json` were measured on a device whose peak rates the file has too. A table
that `vkbench tune --export` wrote has those of the device that it was exported for. Where a
threshold follows from a rate, it is scaled by how the two devices differ there; others stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, log2
from typing import Any, Final

from vkbench.messages.wire import MalformedMessage

_MOST_STEPS = 4  # powers of two that a threshold is moved by at most


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """What a calibration measured of a device as a whole."""

    compute_units: int
    fma: float  # f32 operations a second
    matrices: float = 0.0  # operations a second on matrices of f16 with sums of f32; 0: none
    memory_bytes: float  # that are read in a second
    launch_seconds: float

    def with_units(self, units: int) -> Peaks:
        """The peaks of a device alike with so many compute units."""
        more = units / self.compute_units
        return replace(
            self,
            compute_units=units,
            fma=self.fma * more,
            matrices=self.matrices * more,
            memory_bytes=self.memory_bytes * more,
        )


def check_peaks(peaks: Peaks) -> None:
    """Raise MalformedMessage for rates by which nothing can be scaled."""
    for name, value in vars(peaks).items():
        if not 0 < value < inf and (name, value) != ("matrices", 0):
            raise MalformedMessage(f"no device has {name} of {value}")


# Thresholds by the ratio of `_ratios` that they grow with.
_SCALED: Final[Mapping[str, str]] = {
    # workgroups that keep a device busy
    "split_workgroups": "units",
    "tiles_workgroups": "units",
    "matrices_workgroups": "units",
    # work that is done twice to save a launch
    "short_positions": "reads_a_launch",
    "short_numbers": "reads_a_launch",
    "short_numbers_in_blocks": "reads_a_launch",
    "whole_positions": "reads_a_launch",
    "matrices_positions": "reads_a_launch",
    "joined_rows": "reads_a_launch",
    "least_part": "products_a_launch",
    # products on matrix units beside those in f32
    "rate_over_fma": "matrices_over_fma",
    "matrices_from_rows": "fma_over_matrices",
}


def scale_thresholds(group: Mapping[str, Any], measured: Peaks, device: Peaks) -> dict[str, Any]:
    """Thresholds that differ on a device with these peak rates from those measured on another."""
    ratios = _ratios(measured, device)
    scaled = (name for name in group if name in _SCALED)
    return {name: _scale(group[name], ratios[_SCALED[name]]) for name in scaled}


def _ratios(measured: Peaks, device: Peaks) -> Mapping[str, float]:
    """How a device differs from the measured one.

    Rates are compared by powers of two, so that calibrating a device again moves few thresholds.
    """
    units = device.compute_units / measured.compute_units
    launch = device.launch_seconds / measured.launch_seconds
    fma = device.fma / measured.fma
    has_both = device.matrices and measured.matrices
    matrices = device.matrices / measured.matrices if has_both else fma
    return {
        "units": units,
        "reads_a_launch": _round(launch * device.memory_bytes / measured.memory_bytes / units),
        "products_a_launch": _round(launch * matrices / units),
        "matrices_over_fma": _round(matrices / fma),
        "fma_over_matrices": _round(fma / matrices),
    }


def _round(ratio: float) -> float:
    """The nearest power of two within bounds."""
    return float(2.0 ** max(-_MOST_STEPS, min(_MOST_STEPS, round(log2(ratio)))))


def _scale(value: float, ratio: float) -> float:
    """A threshold of the same kind: a count stays whole and is 1 at least."""
    return max(1, round(value * ratio)) if isinstance(value, int) else value * ratio
