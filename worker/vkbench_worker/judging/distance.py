"""How far an output is from its reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

import numpy as np

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import narrow
from vkbench_worker.judging.rounding import bits, is_float, widen_values

_PIECE: Final = 1 << 16  # elements compared at a time, so that they stay in the caches
# numbers that are multiplied at a time: BLAS shares out products of more than 10,000 among threads,
# which takes ten times as long where other processes keep the processors busy
_ALONE: Final = 1 << 13
_TINY: Final = 2.0**-126  # below it a driver may have zeros
_SINGLE: Final = 4  # bytes
_SQUARED: Final = 2.0**480  # of larger numbers squares overflow once they are added up
_SHRUNK: Final = 2.0**-600  # what such numbers are multiplied by, all of them
_ONE_IN, _FEW = 50, 2  # elements of a narrow output that may be a neighbour


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Errors where both are finite: non-finite values are counted on their own."""

    nmse: float
    worst: float  # absolute
    rms: float  # of the reference
    far: int  # elements off by more than a share of their own value


def distance(view: Array, reference: Array, fmt: Format, each: float = inf) -> Distance:
    """How far an output is; each of its elements may be off by a share `each` of its value."""
    made, expected = view.reshape(-1), reference.reshape(-1)
    error = power = worst = 0.0
    count = 0
    factor = min(_shrink_large_numbers(numbers, fmt) for numbers in (made, expected))
    for at in range(0, expected.size, _PIECE):
        piece = slice(at, at + _PIECE)
        values = _widen_shrunk(expected[piece], fmt, factor)
        difference = _replace_not_finite(
            _subtract_expected(_widen_shrunk(made[piece], fmt, factor), values)
        )
        size = np.abs(difference)
        values = _replace_not_finite(values)
        error += _sum_squares(difference)
        power += _sum_squares(values)
        worst = max(worst, float(size.max(initial=0.0)))
        if each != inf:
            count += int(np.count_nonzero(size > each * np.abs(values) + _TINY))
    nmse = error / power if power else (np.inf if error else 0.0)
    rms = sqrt(power / max(1, expected.size))
    return Distance(nmse=nmse, worst=worst / factor, rms=rms / factor, far=count)


def errors(view: Array, reference: Array, fmt: Format) -> Array:
    """The absolute error of each element; 0 where one of both is not finite."""
    return np.asarray(
        np.abs(
            _replace_not_finite(
                _subtract_expected(widen_values(view, fmt), widen_values(reference, fmt))
            )
        )
    )


def far(view: Array, reference: Array, fmt: Format, each: float) -> Array:
    """Which elements are off by more than a share of their own value."""
    allowed = each * np.abs(_replace_not_finite(widen_values(reference, fmt))) + _TINY
    return np.asarray(errors(view, reference, fmt) > allowed)


def without_neighbours(view: Array, reference: Array, fmt: Format) -> Array:
    """The output with the reference where it is the next number to it, if there are few such.

    Numbers that drivers may make zeros do not count: any number of them may be neighbours of 0.
    """
    if not is_float(fmt) or view.itemsize >= _SINGLE:
        return view
    made, expected = bits(view), bits(np.ascontiguousarray(reference))
    differ = np.nonzero(made != expected)
    steps = narrow.order(made[differ]) - narrow.order(expected[differ])
    near = np.abs(steps) == 1
    tiny = np.abs(widen_values(reference[differ], fmt)) < _TINY
    count = int(np.count_nonzero(near & ~tiny))
    if not near.any() or count > _FEW + view.size // _ONE_IN:
        return view
    moved = view.copy()
    places = tuple(axis[near] for axis in differ)
    moved[places] = reference[places]
    return moved


def steps(reference: Array, fmt: Format) -> Array:
    """Distance from each element to the next larger one in a narrow format; else 0, also of Inf."""
    if not is_float(fmt) or reference.itemsize >= _SINGLE:
        return np.zeros(())
    at = np.ascontiguousarray(reference)
    after = (bits(at) + bits(at).dtype.type(1)).view(at.dtype)
    return _replace_not_finite(
        np.abs(_subtract_expected(widen_values(after, fmt), widen_values(at, fmt)))
    )


def _shrink_large_numbers(stored: Array, fmt: Format) -> float:
    """The factor by which the squares of an f64 array's numbers can be added up; 1 for most."""
    if not is_float(fmt) or stored.itemsize <= _SINGLE:
        return 1.0
    largest = np.abs(_replace_not_finite(stored)).max(initial=0.0)
    return _SHRUNK if largest > _SQUARED else 1.0


def _widen_shrunk(stored: Array, fmt: Format, factor: float) -> Array:
    values = widen_values(stored, fmt)
    if factor == 1:
        return values
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.asarray(values * factor)


def _sum_squares(values: Array) -> float:
    """The sum of the squares of all elements."""
    parts = (values[at : at + _ALONE] for at in range(0, values.size, _ALONE))
    return sum(float(part @ part) for part in parts)


def _subtract_expected(made: Array, expected: Array) -> Array:
    with np.errstate(invalid="ignore"):  # Inf - Inf
        return np.asarray(made - expected)


def _replace_not_finite(values: Array) -> Array:
    """The numbers, with 0 for those that are not finite."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)
