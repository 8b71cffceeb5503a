"""Rounds a float64 reference to its storage format, and decodes stored outputs."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import narrow, quants


def round_values(values: Array, fmt: Format) -> Array:
    """Values in a format's storage type, to nearest even; what has that type is left alone."""
    if values.dtype == fmt.dtype:
        return values
    return quants.quantise(fmt.name, values)  # what does not fit is Inf, as on the device


def widen_values(stored: Array, fmt: Format) -> Array:
    """Stored values as float64; quantised bytes and integers stay numbers of their own."""
    if fmt.name in narrow.DECODERS:
        return narrow.DECODERS[fmt.name](stored)
    with np.errstate(invalid="ignore"):  # what a broken kernel wrote may be a signalling NaN
        return stored.astype(np.float64)


def is_float(fmt: Format) -> bool:
    """Whether single items are floating point numbers."""
    return fmt.name in narrow.DECODERS or fmt.dtype.kind == "f"


def are_finite(stored: Array, fmt: Format) -> Array:
    """Which stored values are neither Inf nor NaN."""
    if not is_float(fmt):
        return np.ones(stored.shape, bool)
    if fmt.name in narrow.ODD:
        return np.asarray(stored & narrow.ODD[fmt.name] != narrow.ODD[fmt.name])
    return np.asarray(np.isfinite(stored))


def bits(stored: Array) -> Array:
    """The same memory as unsigned integers."""
    return stored.view(f"u{stored.itemsize}")
