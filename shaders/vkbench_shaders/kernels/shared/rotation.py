"""How pairs of a head's numbers are turned, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def pairs(count: int, *, halves: bool) -> tuple[slice, slice]:
    """Where the first and the second numbers of pairs are: beside each other, or halves apart."""
    if halves:
        return slice(0, count), slice(count, 2 * count)
    return slice(0, 2 * count, 2), slice(1, 2 * count, 2)


def turn_pairs(x: Numbers, places: tuple[slice, slice], cosine: Numbers, sine: Numbers) -> Numbers:
    """Heads whose pairs are turned; numbers of no pair stay."""
    first, second = places
    y = x.copy()
    y[..., first] = x[..., first] * cosine - x[..., second] * sine
    y[..., second] = x[..., first] * sine + x[..., second] * cosine
    return y
