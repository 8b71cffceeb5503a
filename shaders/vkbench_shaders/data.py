"""Input data from a case alone: Philox keyed with the hash of its name, then exact steps only.

Inputs are not only well-behaved noise: weights have outlier channels and rows of zeros, quantised
ones edge blocks too (see blocks), activations have outlier channels, plain values have -0,
denormals and large ones, indices repeat and meet both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import prod

import numpy as np

from vkbench_shaders import noise, quants
from vkbench_shaders.blocks import random_blocks
from vkbench_shaders.kernel import Array, Problem

Seed = Callable[[str], int]

_SPECIAL_EVERY = 97  # of so many plain values, one is special: the one at _SPECIAL_AT
_SPECIAL_AT = 5
_SPECIALS = {
    "f32": (-0.0, 1e-40, -3e-39, 1000.0, -1000.0, 2.0**-126, 0.0),
    "f16": (-0.0, 6e-8, -5e-5, 1000.0, -1000.0, 2.0**-14, 0.0),
    "bf16": (-0.0, 1e-40, -3e-39, 1000.0, -1000.0, 2.0**-126, 0.0),
    "i32": (0, -1, 1, 2**31 - 1, -(2**31)),
}


def plain(problem: Problem, binding: str) -> Array:
    """Values of a plain or i32 binding: random, with special ones at fixed places."""
    fmt, shape = problem.format(binding), problem.array_shape(binding)
    values = _any_values(fmt.name, problem.seed(binding), shape)
    specials = np.array(_SPECIALS[fmt.name], np.int32 if fmt.name == "i32" else np.float32)
    places = values.reshape(-1)[_SPECIAL_AT::_SPECIAL_EVERY]
    places[:] = np.resize(quants.quantise(fmt.name, specials), places.size)
    return values


def activations(problem: Problem, binding: str) -> Array:
    """Bell-shaped rows in which one channel of 64 is an outlier, in the binding's format."""
    columns = problem.shape[problem.kernel.binding(binding).dims[-1]]
    values = noise.bell(problem.seed(binding), (*problem.array_shape(binding)[:-1], columns))
    values *= noise.channels(problem.seed(f"{binding}.channels"), columns, one_in=64)
    return quants.quantise(problem.types[binding], values)


def weights(problem: Problem, binding: str) -> Array:
    """Rows of weights: outlier channels, scales that differ by row, some rows of zeros."""
    shape = problem.array_shape(binding)
    columns = problem.shape[problem.kernel.binding(binding).dims[-1]]
    fmt = problem.format(binding)

    def seed(what: str) -> int:
        return problem.seed(f"{binding}.{what}")

    if fmt.quantised:
        stored = random_blocks(fmt, seed, prod(shape[:-1]), columns // fmt.elements)
    else:
        stored = _MAKERS[fmt.name](seed, prod(shape[:-1]), columns)
    return stored.reshape(shape)


def indices(problem: Problem, binding: str, below: int) -> Array:
    """Random numbers below a bound, repeats among them; the last and the first come first."""
    shape = problem.array_shape(binding)
    bits = noise.raw(problem.seed(binding), 8 * prod(shape)).view("<u8")
    numbers = (bits % np.uint64(below)).astype(problem.format(binding).dtype)
    numbers[:2] = (below - 1, 0)[: numbers.size]
    return numbers.reshape(shape)


def distinct(problem: Problem, binding: str, below: int) -> Array:
    """Random numbers below a bound, no two alike along the last axis."""
    *outer, count = problem.array_shape(binding)
    if count > below:
        raise ValueError(f"{binding} has {count} indices; only {below} are distinct")
    keys = noise.raw(problem.seed(binding), 8 * prod(outer) * below).view("<u8")
    order = keys.reshape(*outer, below).argsort(axis=-1, kind="stable")
    return order[..., :count].astype(problem.format(binding).dtype)


def _any_values(name: str, seed: int, shape: tuple[int, ...]) -> Array:
    if name == "i32":
        return noise.raw(seed, 4 * prod(shape)).view("<i4").reshape(shape)
    bits = noise.raw(seed, 2 * prod(shape)).view("<u2")
    return noise.looked_up(_table(name, 1.0), bits).reshape(shape)


def _f32_weights(seed: Seed, rows: int, columns: int) -> Array:
    values = noise.bell(seed("values"), (rows, columns))
    values *= noise.channels(seed("channels"), columns, one_in=128)
    values *= noise.rows(seed("rows"), rows)
    return values


def _narrow_weights(name: str, seed: Seed, rows: int, columns: int) -> Array:
    """From the table on in 16 bits: numpy rounds singles too slowly for large matrices."""
    bits = noise.raw(seed("values"), 2 * rows * columns).view("<u2").reshape(rows, columns)
    values = noise.looked_up(_table(name, 1.0), bits.reshape(-1)).reshape(rows, columns)
    factors = noise.channels(seed("channels"), columns, one_in=128)
    outliers = np.flatnonzero(factors >= noise.OUTLIER)
    values[:, outliers] = _table(name, noise.OUTLIER)[bits[:, outliers]]
    values[noise.ZERO_AT :: noise.ZERO_EVERY] = 0
    return values


@cache
def _table(name: str, factor: float) -> Array:
    """The bell's table in a format."""
    return quants.quantise(name, noise.bell_table() * np.float32(factor))


_MAKERS: Mapping[str, Callable[[Seed, int, int], Array]] = {
    "f32": _f32_weights,
    "f16": partial(_narrow_weights, "f16"),
    "bf16": partial(_narrow_weights, "bf16"),
    "i32": lambda seed, rows, columns: _any_values("i32", seed("values"), (rows, columns)),
}
