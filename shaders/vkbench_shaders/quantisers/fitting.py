"""Searches for the scales, and minima, under which groups of numbers lose least by rounding.

Arrays of numbers are (elements of a group, groups...): sums over a group then add whole rows, and a
scale is a row. A search tries several scales, rounds, and takes from each rounding the scale that
suits it best by least squares, weighted by the importance of each number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.quantisers.codecs import LEAST_NORMAL
from vkbench_shaders.quantisers.levels import Floats, Integers, Levels


class Best:
    """What had the least error of all that was offered, for each group or block by itself."""

    def __init__(self) -> None:
        self.found: list[Floats] = []
        self._error = np.empty(0, np.float32)

    def offer(self, error: Floats, *values: Floats) -> None:
        """Keep what is found wherever its error is the least so far."""
        if not self.found:
            self._error, *self.found = (array.copy() for array in (error, *values))
            return
        better = error < self._error
        for kept, new in zip((self._error, *self.found), (error, *values), strict=True):
            np.copyto(kept, new, where=better)


def inverse(values: Floats) -> Floats:
    """1 / value, and 0 for one that is too small to have an inverse."""
    usable = np.abs(values) >= LEAST_NORMAL
    return np.divide(np.float32(1), values, out=np.zeros_like(values), where=usable)


def total(values: Floats) -> Floats:
    """The sum over each group, of one element after the other: kernels add in the same order."""
    found = np.zeros(values.shape[1:], np.float32)
    for element in values:
        found += element
    return found


def fit_scales(
    x: Floats, weights: Floats, levels: Levels, starts: Sequence[float]
) -> tuple[Floats, Floats]:
    """The scale of each group, and how much the group's error grows with the scale's own.

    A start is the factor by which the largest number first lies beyond the largest level.
    """
    largest = _largest(x)
    unit = inverse(np.abs(largest) if levels.is_symmetric else largest)
    unit = unit * np.float32(levels.largest)
    weighted = x * weights
    best = Best()
    for start in starts:
        near = levels.nearest(x * (unit * np.float32(start)), weights)
        cross, square = total(weighted * near), total(weights * near * near)
        scales = cross * inverse(square)
        best.offer(-scales * cross, scales, square)
    scales, square = best.found
    return scales, square


def fit_scales_and_minima(
    x: Floats, weights: Floats, levels: Integers, starts: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """Scale and minimum of each group, neither below 0, and the weight of the scale's error.

    A level stands for scale * level - minimum.
    """
    low = np.minimum(x.min(axis=0), 0)
    y = x - low  # from 0, so that sums of squares lose no digits to a distant minimum
    unit = inverse(y.max(axis=0)) * np.float32(levels.most)
    weighted = weights * y
    one, first = total(weights), total(weighted)
    best = Best()
    for start in starts:
        near = levels.nearest(y * (unit * np.float32(start)), weights)
        of_levels = weights * near
        q, qq, qy = total(of_levels), total(of_levels * near), total(weighted * near)
        scales, shifts = line(one, first, q, qq, qy, most=-low)
        of_scale = scales * (scales * qq - 2 * qy)
        of_shift = shifts * (shifts * one - 2 * first + 2 * scales * q)
        best.offer(of_scale + of_shift, scales, shifts, qq)
    scales, shifts, square = best.found
    return scales, -(low + shifts), square


def line(
    one: Floats, x: Floats, q: Floats, qq: Floats, qx: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Scale and shift of the line through numbers over levels, the shift at most `most`.

    The arguments are sums over each group: of weights, numbers, levels, squares of levels, and
    products of levels and numbers.
    """
    over = inverse(one * qq - q * q)
    shift = (qq * x - q * qx) * over
    fixed = (shift > most) | (over == 0)
    shift = np.where(fixed, np.where(over == 0, 0, most), shift)
    scale = np.where(fixed, (qx - shift * q) * inverse(qq), (one * qx - x * q) * over)
    return np.maximum(scale, 0), shift


def _largest(x: Floats) -> Floats:
    """The number of the largest magnitude in each group."""
    places: NDArray[np.intp] = np.abs(x).argmax(axis=0)[None]
    return np.asarray(np.take_along_axis(x, places, axis=0)[0])
