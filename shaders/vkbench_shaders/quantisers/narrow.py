"""Floating point formats that numpy has no type for, as their bits: bf16 and f8_e4m3.

From float64 to them there is one rounding, to nearest even. f8_e4m3 has no Inf (it is OCP's "fn"
form): what would round past 448 is NaN, as in ml_dtypes and torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Stored = NDArray[np.unsignedinteger]
Floats = NDArray[np.float64]

_F8_NAN: Final = 0x7F
_F8_SIGN: Final = 0x80


def _bf16_of(values: Floats) -> Stored:
    with np.errstate(over="ignore", invalid="ignore"):  # too large becomes Inf
        single = values.astype(np.float32)
        error = np.abs(single.astype(np.float64)) - np.abs(values)
    words = single.view(np.uint32)
    # Cut off, with an odd last bit for what was cut: then the next rounding is the only one.
    words = words - (error > 0).astype(np.uint32) | (error != 0)
    nearest = (words + 0x7FFF + (words >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, nearest).astype(np.uint16)


def _of_bf16(stored: Stored) -> Floats:
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@cache
def _f8_values() -> Floats:
    """What each of the 256 codes stands for."""
    codes = np.arange(256)
    power, digits = codes >> 3 & 15, codes & 7
    values = np.where(power, np.ldexp(8.0 + digits, power - 10), np.ldexp(digits.astype("f8"), -9))
    values[_F8_NAN::_F8_SIGN] = np.nan
    return np.asarray(np.where(codes & _F8_SIGN, -values, values))


def _f8_of(values: Floats) -> Stored:
    sizes = _f8_values()[:_F8_NAN]
    size = np.abs(values)
    step = sizes[-1] - sizes[-2]
    middles = (sizes + np.append(sizes[1:], sizes[-1] + step)) / 2
    below = np.searchsorted(middles, size, "left")  # NaN comes behind all
    code = below + ((below < _F8_NAN) & (size == np.append(middles, np.nan)[below]) & (below & 1))
    return np.asarray(code | np.signbit(values) * _F8_SIGN).astype(np.uint8)


ENCODERS: Final[Mapping[str, Callable[[Floats], Stored]]] = {"bf16": _bf16_of, "f8_e4m3": _f8_of}
DECODERS: Final[Mapping[str, Callable[[Stored], Floats]]] = {
    "bf16": _of_bf16,
    "f8_e4m3": lambda stored: _f8_values()[stored],
}
# bits that are all set in Inf and NaN, and in nothing else
ODD: Final[Mapping[str, int]] = {"bf16": 0x7F80, "f8_e4m3": _F8_NAN}


def order(stored: Stored) -> NDArray[np.int64]:
    """Numbers in the order of the values that a format's bits stand for, neighbours 1 apart."""
    sign = 1 << (8 * stored.itemsize - 1)
    bits = stored.astype(np.int64)
    return np.where(bits & sign, -(bits & (sign - 1)), bits)
