"""Input data from a case alone: Philox keyed with the hash of its name, then exact steps only.

The generator's raw bits are the same in every numpy and on every machine; its distributions are not
promised to be, so values are looked up in a bell-shaped table of 65536 entries instead. Inputs are
not only well-behaved noise: weights have outlier channels and rows of zeros, activations have
outlier channels, plain values have -0, denormals and large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Array, Problem

Floats = NDArray[np.float32]
Real = TypeVar("Real", np.float32, np.float16)

OUTLIER = 16.0  # how much larger an outlier channel is
_ZERO_ROW = 61  # of so many rows, one is zero: the one at _ZERO_AT
_ZERO_AT = 7
_SPECIAL_EVERY = 97  # of so many plain values, one is special: the one at _SPECIAL_AT
_SPECIAL_AT = 5
_SPECIALS = {
    "f32": (-0.0, 1e-40, -3e-39, 1000.0, -1000.0, 2.0**-126, 0.0),
    "f16": (-0.0, 6e-8, -5e-5, 1000.0, -1000.0, 2.0**-14, 0.0),
}


def raw(seed: int, count: int) -> NDArray[np.uint8]:
    """`count` random bytes."""
    words = np.random.Philox(key=seed).random_raw(-(-count // 8))
    return np.asarray(words).astype("<u8", copy=False).view(np.uint8)[:count]


def bell(seed: int, shape: tuple[int, ...]) -> Floats:
    """Bell-shaped values around 0 with standard deviation of about 1.2 and none beyond 3.9."""
    return _looked_up(_bell_table(), raw(seed, 2 * prod(shape)).view("<u2")).reshape(shape)


def plain(problem: Problem, binding: str) -> Array:
    """Values of a plain binding: bell-shaped, with special ones at fixed places."""
    fmt = problem.format(binding)
    values = bell(problem.seed(binding), problem.array_shape(binding)).astype(fmt.dtype)
    specials = np.array(_SPECIALS[fmt.name]).astype(fmt.dtype)
    places = values.reshape(-1)[_SPECIAL_AT::_SPECIAL_EVERY]
    places[:] = np.resize(specials, places.size)
    return values


def activations(problem: Problem, binding: str) -> Floats:
    """Bell-shaped rows in which one channel of 64 is an outlier."""
    values = bell(problem.seed(binding), problem.array_shape(binding))
    values *= _channels(problem.seed(f"{binding}.channels"), values.shape[-1], one_in=64)
    return values


def weights(problem: Problem, binding: str) -> Array:
    """Rows of weights: outlier channels, scales that differ by row, some rows of zeros."""
    rows, _ = problem.array_shape(binding)
    columns = problem.shape[problem.kernel.binding(binding).dims[-1]]
    fmt = format_named(problem.types[binding])
    return _MAKERS[fmt.name](lambda what: problem.seed(f"{binding}.{what}"), rows, columns)


Seed = Callable[[str], int]


def _f32_weights(seed: Seed, rows: int, columns: int) -> Array:
    values = bell(seed("values"), (rows, columns))
    values *= _channels(seed("channels"), columns, one_in=128)
    values *= _rows(seed("rows"), rows)
    return values


def _f16_weights(seed: Seed, rows: int, columns: int) -> Array:
    """Halves from the table on: numpy rounds singles to halves too slowly for large matrices."""
    bits = raw(seed("values"), 2 * rows * columns).view("<u2")
    values = _looked_up(_bell_table().astype(np.float16), bits).reshape(rows, columns)
    outliers = np.flatnonzero(_channels(seed("channels"), columns, one_in=128) >= OUTLIER)
    values[:, outliers] *= np.float16(OUTLIER)
    values[_ZERO_AT::_ZERO_ROW] = 0
    return values


def _q4_0_weights(seed: Seed, rows: int, columns: int) -> Array:
    return _blocks(seed, rows, columns // 32, 18, 1 / 8)


def _q8_0_weights(seed: Seed, rows: int, columns: int) -> Array:
    return _blocks(seed, rows, columns // 32, 34, 1 / 128)


def _blocks(seed: Seed, rows: int, blocks: int, size: int, unit: float) -> Array:
    """Blocks that begin with a half, the scale, and go on with any bytes at all."""
    stored = raw(seed("values"), rows * blocks * size).reshape(rows, blocks, size).copy()
    scales = bell(seed("scales"), (rows, blocks))
    scales *= _channels(seed("channels"), blocks, one_in=64)
    scales *= _rows(seed("rows"), rows) * np.float32(unit)
    stored[:, :, :2] = scales.astype("<f2").view(np.uint8).reshape(rows, blocks, 2)
    return stored.reshape(rows, blocks * size)


_MAKERS: dict[str, Callable[[Seed, int, int], Array]] = {
    "f32": _f32_weights,
    "f16": _f16_weights,
    "q4_0": _q4_0_weights,
    "q8_0": _q8_0_weights,
}


def _channels(seed: int, count: int, one_in: int) -> Floats:
    """A factor for each channel: 1 to 2, and OUTLIER times that in one channel of `one_in`."""
    bits = raw(seed, 4 * count).view("<u2").reshape(count, 2)
    factors: Floats = 1 + bits[:, 0].astype(np.float32) / np.float32(65536)
    factors[bits[:, 1] % one_in == 0] *= OUTLIER
    return factors


def _rows(seed: int, count: int) -> Floats:
    """A factor for each row, as a column: 1/2 to 1, and 0 in some rows."""
    factors: Floats = 0.5 + raw(seed, 2 * count).view("<u2").astype(np.float32) / np.float32(131072)
    factors[_ZERO_AT::_ZERO_ROW] = 0
    return factors.reshape(count, 1)


@cache
def _bell_table() -> Floats:
    """Sums of four hexadecimal digits, made finer by a scramble of them: exact in float32."""
    numbers = np.arange(65536, dtype=np.int64)
    digits = sum((numbers >> shift) & 15 for shift in (0, 4, 8, 12)) - 30
    finer = (numbers * 40503 % 65536) / 65536 - 0.5
    table = ((digits + finer) / 8).astype(np.float32)
    table.flags.writeable = False
    return table


def _looked_up(table: NDArray[Real], indices: NDArray[np.uint16]) -> NDArray[Real]:
    """table[indices], a part at a time, because numpy widens indices to eight bytes each."""
    values = np.empty(indices.size, table.dtype)
    for first in range(0, indices.size, 1 << 18):
        part = slice(first, first + (1 << 18))
        np.take(table, indices[part], out=values[part], mode="clip")
    return values
