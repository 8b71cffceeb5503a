"""Timings that are faster than their device can be: they count nowhere until somebody knows why.

What is fast because it is wrong is a classic: a kernel that leaves work out, a count of operations
that is too high, a clock that stood still. A timing is held against the best that any calibration
of its device reached, and only where that bounds it for certain:

- operations, at the rate of the fastest unit that its code path may use;
- bytes, at the bandwidth of memory, where they have to come from there: cold, or hot beyond twice
  the last-level cache. What fits in a cache is not held against memory.

Devices that are CPUs are left out, whose rates change with what else they do; so are the kernels
that roofs are measured by, and other programs, which may use units that no calibration measures.
"""

from __future__ import annotations

from typing import Final

from vkbench.case import is_model, is_own
from vkbench_detection.series.roofs import RoofLoad, Roofs, is_from_memory

SUSPECT: Final = "suspect: faster than this device can be"  # flag of such a timing
MARGIN: Final = 1.05  # of a roof: calibrations of one device differ by less

_MEASURE_ROOFS = frozenset(
    ("read_bandwidth", "copy", "fma", "dot_i8", "matrix_rate", "matrix_rate_8", "launch")
)
# they count an item each time that they read or write it, though a cache may still have it
_COUNT_AGAIN = frozenset(
    (
        *("get_rows", "set_rows", "index_select", "gather", "scatter", "rope_set_rows"),
        *("flash_attn_token", "mul_mat_vec_id", "mul_mat_id"),
    )
)
_PLAIN = ("portable", "subgroup")  # code paths that use neither matrix units nor dot products


def is_impossible(load: RoofLoad, seconds: float, roofs: Roofs | None) -> bool:
    """Whether a launch was faster than its device can be."""
    return roofs is not None and 0 < seconds * MARGIN < least_seconds(load, roofs)


def least_seconds(load: RoofLoad, roofs: Roofs) -> float:
    """What a launch needs at the very least; 0 where nothing bounds it for certain."""
    if roofs.is_cpu or load.kernel in _MEASURE_ROOFS or is_model(f"{load.kernel}/"):
        return 0.0
    rate, bandwidth = _fastest(load, roofs), _bandwidth(load, roofs)
    computing = load.flops / rate if rate else 0.0
    moving = load.bytes_moved / bandwidth if bandwidth else 0.0
    return max(computing, moving)


def _fastest(load: RoofLoad, roofs: Roofs) -> float | None:
    """Operations a second that no code of this path can exceed; None if that is not known."""
    if load.variant in _PLAIN and not is_own(load.kernel):
        return roofs.peak(load)
    if roofs.dot_i8 is None or not roofs.matrices:
        return None
    rates = (roofs.fma_f32, roofs.fma_f16, roofs.dot_i8, *roofs.matrices.values())
    return max(filter(None, rates))


def _bandwidth(load: RoofLoad, roofs: Roofs) -> float | None:
    """Bytes a second of what has to come from memory; None where it need not."""
    is_counted_once = load.kernel not in _COUNT_AGAIN and not is_own(load.kernel)
    if roofs.llc_bytes and is_counted_once and is_from_memory(load, roofs):
        return roofs.bandwidth
    return None
