"""How far the numbers that blocks of q8_1 stand for are from a float64 reference.

A block has a step d, its largest number / 127, and codes q: numbers are d q. Rounding to codes puts
a number off by half a step at most. d is stored as f16, so that a number is off by 2^-11 of itself
besides, or by 127 halves of the smallest f16 step where d is denormal. The block's second f16 is d
times the sum of its codes, Inf where f16 cannot hold that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import quants

_LARGEST: Final = 127  # code
_HALF: Final = 2.0**-11  # what rounding to f16 may change of a number, as a share of it
_LEAST: Final = 2.0**-25  # and of a small one
_MOST: Final = 65504.0  # the largest f16

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Numbers of blocks beside what they should be."""

    values: Floats
    nmse: float
    worst: float  # the error that is nearest to its limit, or farthest past it
    limit: float
    bad: NDArray[np.bool_]  # numbers past their limits
    wrong_sums: NDArray[np.bool_]  # blocks whose second f16 is not that of their codes


def compare_blocks(stored: Array, exact: Floats, fmt: Format, share: float) -> Compared:
    """Blocks of q8_1 against float64; the arithmetic may be off by a share of the row's RMS."""
    values = quants.dequantise(fmt.name, stored)
    in_blocks = np.abs(exact).reshape(*exact.shape[:-1], -1, fmt.elements)
    steps = np.repeat(in_blocks.max(axis=-1) / _LARGEST, fmt.elements, axis=-1)
    power = float(np.square(exact).sum())
    arithmetic = share * np.sqrt(np.square(exact).mean(axis=-1, keepdims=True))
    allowed = steps / 2 + np.abs(exact) * _HALF + _LARGEST * _LEAST + arithmetic
    errors = np.abs(values - exact)
    errors[~np.isfinite(errors)] = np.inf
    error = float(np.square(errors).sum())
    nearest = int(np.argmax(errors / allowed)) if errors.size else 0
    return Compared(
        values=values,
        nmse=error / power if power else float(error > 0),
        worst=float(errors.flat[nearest]) if errors.size else 0.0,
        limit=float(allowed.flat[nearest]) if errors.size else 0.0,
        bad=errors > allowed,
        wrong_sums=_wrong_sums(stored, fmt),
    )


def _wrong_sums(stored: Array, fmt: Format) -> NDArray[np.bool_]:
    blocks = np.ascontiguousarray(stored).view(np.uint8).reshape(-1, fmt.bytes)
    step, sums = blocks[:, :4].copy().view(np.float16).astype(np.float64).T
    expected = step * blocks[:, 4:].view(np.int8).sum(axis=-1, dtype=np.int64)
    # the step was rounded in both, the sum in one
    allowed = 3 * _HALF * np.abs(expected) + 32 * _LARGEST * _LEAST
    endless = np.isinf(sums) & (np.abs(expected) >= _MOST * (1 - 2 * _HALF))
    right = endless & (np.sign(sums) == np.sign(expected)) | (np.abs(sums - expected) <= allowed)
    return np.asarray(~right)
