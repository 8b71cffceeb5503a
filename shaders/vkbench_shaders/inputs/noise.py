"""Random bytes and bell-shaped values from a seed alone, the same on every machine.

Philox's raw bits are the same in every numpy; its distributions are not promised to be, so values
are looked up in a bell-shaped table of 65536 entries instead: exact steps only.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Item = TypeVar("Item", np.float32, np.float16, np.uint16)

DEVIATION = 1.153  # standard deviation of `bell`
OUTLIER = 16.0  # how much larger an outlier channel is
ZERO_EVERY = 61  # of so many rows, one is zero: the one at ZERO_AT
ZERO_AT = 7


def raw(seed: int, count: int) -> NDArray[np.uint8]:
    """Make `count` random bytes of a seed."""
    words = np.random.Philox(key=seed).random_raw(-(-count // 8))
    return np.asarray(words).astype("<u8", copy=False).view(np.uint8)[:count]


def bell(seed: int, shape: tuple[int, ...]) -> Floats:
    """Bell-shaped values around 0 with standard deviation DEVIATION and none beyond 3.9."""
    return looked_up(bell_table(), raw(seed, 2 * prod(shape)).view("<u2")).reshape(shape)


def channels(seed: int, count: int, one_in: int) -> Floats:
    """A factor for each channel: 1 to 2, and OUTLIER times that in one of `one_in` or so.

    Of 8 channels or more, at least one is an outlier.
    """
    bits = raw(seed, 4 * count).view("<u2").reshape(count, 2)
    factors: Floats = 1 + bits[:, 0].astype(np.float32) / np.float32(65536)
    outliers = bits[:, 1] % one_in == 0
    if count >= 8:
        outliers[int(bits[0, 1]) % count] = True
    factors[outliers] *= OUTLIER
    return factors


def rows(seed: int, count: int) -> Floats:
    """A factor for each row, as a column: 1/2 to 1, and 0 in some rows."""
    factors: Floats = 0.5 + raw(seed, 2 * count).view("<u2").astype(np.float32) / np.float32(131072)
    factors[ZERO_AT::ZERO_EVERY] = 0
    return factors.reshape(count, 1)


@cache
def bell_table() -> Floats:
    """Sums of four hexadecimal digits, made finer by a scramble of them: exact in float32."""
    numbers = np.arange(65536, dtype=np.int64)
    digits = sum((numbers >> shift) & 15 for shift in (0, 4, 8, 12)) - 30
    finer = (numbers * 40503 % 65536) / 65536 - 0.5
    table = ((digits + finer) / 8).astype(np.float32)
    table.flags.writeable = False
    return table


def looked_up(table: NDArray[Item], indices: NDArray[np.uint16]) -> NDArray[Item]:
    """table[indices], a part at a time, because numpy widens indices to eight bytes each."""
    values = np.empty(indices.size, table.dtype)
    for first in range(0, indices.size, 1 << 18):
        part = slice(first, first + (1 << 18))
        np.take(table, indices[part], out=values[part], mode="clip")
    return values
