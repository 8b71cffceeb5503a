"""Between float64 values and storage formats: a reference as it looks once stored, and back."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array


def rounded(values: Array, fmt: Format) -> Array:
    """Values in a format's storage type, to nearest even; what has that type is left alone."""
    if values.dtype == fmt.dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is Inf, as on the device
        if fmt.name == "bf16":
            return _bf16(values.astype(np.float32))
        return values.astype(fmt.dtype)


def widened(stored: Array, fmt: Format) -> Array:
    """Stored values as float64; quantised bytes and integers stay numbers of their own."""
    if fmt.name == "bf16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # what a broken kernel wrote may be a signalling NaN
        return stored.astype(np.float64)


def is_float(fmt: Format) -> bool:
    """Whether single items are floating point numbers."""
    return fmt.name == "bf16" or fmt.dtype.kind == "f"


def finite(stored: Array, fmt: Format) -> Array:
    """Which stored values are neither Inf nor NaN."""
    if not is_float(fmt):
        return np.ones(stored.shape, bool)
    if fmt.name == "bf16":
        return np.asarray(stored & 0x7F80 != 0x7F80)
    return np.asarray(np.isfinite(stored))


def bits(stored: Array) -> Array:
    """The same memory as unsigned integers."""
    return stored.view(f"u{stored.itemsize}")


def _bf16(values: Array) -> Array:
    words = np.ascontiguousarray(values).view(np.uint32)
    nan = words & 0x7FFFFFFF > 0x7F800000
    nearest = (words + 0x7FFF + (words >> 16 & 1)) >> 16
    return np.where(nan, 0x7FC0, nearest).astype(np.uint16)
