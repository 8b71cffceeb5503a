"""Input data from a case alone: Philox keyed with the hash of its name, then exact steps only.

Inputs are not only well-behaved noise: weights have outlier channels and rows of zeros, quantised
ones edge blocks too (see blocks), activations have outlier channels, plain values have -0,
denormals and large ones (and NaN and Inf where the case asks for them), indices repeat and meet
both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import prod

import numpy as np

from vkbench_shaders.formats import Format, format_named
from vkbench_shaders.inputs import noise
from vkbench_shaders.inputs.blocks import random_blocks
from vkbench_shaders.kernel import Array, Param, Problem
from vkbench_shaders.quantisers import quants

Seed = Callable[[str], int]

_SPECIAL_EVERY = 97  # of so many plain values, one is special: the one at _SPECIAL_AT
_SPECIAL_AT = 5
_SPECIALS: Mapping[str, tuple[float, ...]] = {
    "f64": (-0.0, 1e-310, -3e-320, 1000.0, -1000.0, 2.0**-1022, 1e300, 0.0),
    "f32": (-0.0, 1e-40, -3e-39, 1000.0, -1000.0, 2.0**-126, 0.0),
    "f16": (-0.0, 6e-8, -5e-5, 1000.0, -1000.0, 2.0**-14, 0.0),
    "bf16": (-0.0, 1e-40, -3e-39, 1000.0, -1000.0, 2.0**-126, 0.0),
    "f8_e4m3": (-0.0, 2.0**-9, -3 * 2.0**-9, 448.0, -448.0, 2.0**-6, 0.0),
    "i32": (0, -1, 1, 2**31 - 1, -(2**31)),
    "i64": (0, -1, 1, 2**63 - 1, -(2**63), 2**32),
    "u32": (0, 1, 2**32 - 1, 2**31),
    "u8": (0, 1, 255, 128),
    "i8": (0, -1, 1, 127, -128),
    "i16": (0, -1, 1, 2**15 - 1, -(2**15), 2**8),
}
_ODD_EVERY = 3  # under values=special
_ODD = (float("nan"), float("inf"), -float("inf"), 1.0, 0.0, -1.0, 1.0, 0.5, 1.0)

VALUES = Param(
    default="noise",
    choices=("noise", "special"),
    description="what inputs hold: noise, or NaN, Inf, zeros, denormals and equal numbers, too",
)


def plain_values(problem: Problem, binding: str) -> Array:
    """Values of a plain or i32 binding: random, with special ones at fixed places."""
    values = bell(problem, binding)
    places = values.reshape(-1)[_SPECIAL_AT::_SPECIAL_EVERY]
    places[:] = np.resize(_special_values(problem.types[binding], ()), places.size)
    return values


def bell(problem: Problem, binding: str) -> Array:
    """Bell-shaped numbers of about 1, as randn's are, none of them special; or any integers."""
    return _any(problem.format(binding), problem.seed(binding), problem.array_shape(binding))


def values(problem: Problem, binding: str) -> Array:
    """Values of a plain binding by the parameter `values`: as `plain`, or every third one odd."""
    if problem.params["values"] == "noise":
        return plain_values(problem, binding)
    values = bell(problem, binding)
    places = values.reshape(-1)[::_ODD_EVERY]
    places[:] = np.resize(_special_values(problem.types[binding], _ODD), places.size)
    return values


def odd_values(fmt: str) -> Array:
    """A plain format's special values one after the other: NaN, Inf, zeros, denormals, ties."""
    return _special_values(fmt, _ODD)


def uniform(problem: Problem, binding: str, low: float, high: float) -> Array:
    """Evenly spread values of a plain binding, rounded to its format."""
    shape = problem.array_shape(binding)
    bits = noise.raw(problem.seed(binding), 4 * prod(shape)).view("<u4") >> 8
    return quants.quantise(problem.types[binding], low + (high - low) / 2**24 * bits).reshape(shape)


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
        stored = random_blocks(fmt, seed, prod(shape[:-1]), shape[-1] // fmt.bytes)
    else:
        stored = _MAKERS[fmt.name](seed, prod(shape[:-1]), columns)
    return stored.reshape(shape)


def indices(problem: Problem, binding: str, below: int) -> Array:
    """Random numbers below a bound, repeats among them; the last and the first come first.

    A format of few bytes may not reach the bound.
    """
    shape, dtype = problem.array_shape(binding), problem.format(binding).dtype
    below = min(below, int(np.iinfo(dtype.str).max) + 1)
    bits = noise.raw(problem.seed(binding), 8 * prod(shape)).view("<u8")
    numbers = (bits % np.uint64(below)).astype(dtype)
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


def _any(fmt: Format, seed: int, shape: tuple[int, ...]) -> Array:
    """Any integers; bell-shaped numbers."""
    if fmt.name[0] in "iu":
        size = fmt.dtype.itemsize
        return noise.raw(seed, size * prod(shape)).view(fmt.dtype.newbyteorder("<")).reshape(shape)
    bits = noise.raw(seed, 2 * prod(shape)).view("<u2")
    if fmt.name == "f64":
        coarse = noise.looked_up(_table("f32", 1.0), bits).astype(np.float64).reshape(shape)
        return coarse * (1 + bits.reshape(shape) * 2.0**-50)
    return noise.looked_up(_table(fmt.name, 1.0), bits).reshape(shape)


@cache
def _special_values(name: str, odd: tuple[float, ...]) -> Array:
    """A format's special values, and odd ones that it has, one after the other."""
    if name[0] in "iu":
        return np.array(_SPECIALS[name], format_named(name).dtype)
    return quants.quantise(name, np.array((*odd, *_SPECIALS[name]), np.float64))


def _f32_weights(seed: Seed, rows: int, columns: int) -> Array:
    values = noise.bell(seed("values"), (rows, columns))
    values *= noise.channels(seed("channels"), columns, one_in=128)
    values *= noise.rows(seed("rows"), rows)
    return values


def _narrow_weights(name: str, seed: Seed, rows: int, columns: int) -> Array:
    """Weights in 16 bits from a table: numpy rounds singles too slowly for large matrices."""
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
    "i32": lambda seed, rows, columns: _any(format_named("i32"), seed("values"), (rows, columns)),
}
