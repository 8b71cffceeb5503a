"""How code paths round the factors of products, and how far that puts the sums of products off.

An error of rounding is at most half a step, and as likely everywhere between: its variance is
step^2 / 12. The errors of a sum's terms w * x are independent, so that the sum's variance is the
sum of w^2 * var(x) + x^2 * var(w). The sum is about normal, for it has many terms, or, if one term
outweighs all others, bounded by 1.8 deviations a factor. Beyond six lies one of 5e8 sums.

A float's step is at most a share of the number, the same for all that are normal, and largest next
to a power of two. So one sum, of w^2 * x^2, says how far the rounding of both may put a sum off;
on the whole the variance is 0.54 of that. It takes as long as the reference or less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import hypot, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Of = Callable[[Floats], Floats]  # numbers to be multiplied, from the numbers of a factor
Sums = Callable[[Of, Of], Floats]  # of products of weights and x

_BLOCK: Final = 32  # numbers that are rounded to bytes by one step
_BYTE_STEPS: Final = 127  # from 0 to the largest of a block
_IN_SUMS: Final = 6e-5  # of a factor that is not rounded; six deviations of both are f32's limit
# binary digits behind the first one of a number, and the exponent of the least normal one
_FLOATS: Final[Mapping[str, tuple[int, int]]] = {"f16": (10, -14), "bf16": (7, -126)}


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What a path rounds the factors of its products to."""

    to: str  # f16 or bf16: both factors; bytes: x alone, each 32 numbers by a step of their own

    @property
    def share(self) -> float:
        """The largest RMS error of a number that is rounded, of itself."""
        return float(2.0 ** -(_FLOATS[self.to][0] + 1) / sqrt(3))

    @property
    def least_step(self) -> float:
        """The RMS error of numbers below the least normal one."""
        digits, least = _FLOATS[self.to]
        return float(2.0 ** (least - digits) / sqrt(12))

    def shares(self, fmt: str) -> float:
        """The largest RMS error of a number in a format, of itself: none, if rounding leaves it."""
        return 0.0 if fmt == self.to else self.share

    def deviations(self, sums: Sums, weights: str, x: str) -> Floats:
        """The RMS errors of sums of products of numbers in two formats."""
        if self.to == "bytes":
            return _root(sums(np.square, _variance_of_bytes))
        _, least = _FLOATS[self.to]
        share = hypot(*(_IN_SUMS if fmt == self.to else self.share for fmt in (weights, x)))
        squares = _squares(2.0**least, 1 / self.share)
        return share * _root(sums(squares, squares))


def _root(variances: Floats) -> Floats:
    return np.sqrt(np.nan_to_num(variances, posinf=0.0))  # sums of Inf and NaN are not compared


def _variance_of_bytes(values: Floats) -> Floats:
    blocks = values.reshape(*values.shape[:-1], -1, _BLOCK)
    steps = np.abs(blocks).max(axis=-1, keepdims=True) / _BYTE_STEPS
    return np.broadcast_to(steps**2 / 12, blocks.shape).reshape(values.shape)


def _squares(least: float, raise_by: float) -> Of:
    """Squares of numbers, those of numbers below the least normal one raised.

    A device may have zeros for these: they are as far off as they are large.
    """

    def squares(values: Floats) -> Floats:
        squared = np.square(values)
        small = squared < least**2
        if small.any():
            squared[small] *= raise_by**2
        return squared

    return squares


X_TO_BYTES: Final = Rounding(to="bytes")
TO_F16: Final = Rounding(to="f16")
TO_BF16: Final = Rounding(to="bf16")
