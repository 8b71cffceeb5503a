"""Super-blocks: groups of numbers whose scales, and minima, are stored as small integers.

A half-precision unit multiplies the scales of a super-block, another one its minima. Units are
searched for as scales are. Then all is adjusted in turns, each part with the others held.
Arrays are (elements of a group, groups, blocks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vkbench_shaders.quantisers.fitting import (
    Best,
    fit_scales,
    fit_scales_and_minima,
    inverse,
    line,
    total,
)
from vkbench_shaders.quantisers.levels import Floats, Integers, Levels

_UNITS = tuple(map(float, np.linspace(0.72, 1.28, 19)))  # starts of the search for a unit
_TURNS = 3  # of adjustment: a fourth lowers the error by less than a thousandth


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a format keeps of a super-block."""

    group: int  # numbers under one scale
    levels: Levels
    scales: Levels  # that the scale, and the minimum, of a group may be
    reach: float  # of the search: scales up to this fraction above and below the plain one
    tries: int = 19  # scales between those
    others: tuple[float, ...] = ()  # fractions of the plain scale that are tried too

    @property
    def starts(self) -> Sequence[float]:
        """Factors at which the search for the scale of a group begins."""
        around = np.linspace(1 - self.reach, 1 + self.reach, self.tries)
        return [*map(float, around), *self.others]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Super-blocks whose numbers are unit * scale * level - minimum unit * minimum."""

    levels: Floats
    scales: Floats
    unit: Floats
    minima: Floats
    minimum_unit: Floats


def group_elements(blocks: Floats, group: int) -> Floats:
    """Blocks (blocks, elements) as (elements of a group, groups, blocks)."""
    return np.ascontiguousarray(blocks.reshape(len(blocks), -1, group).transpose(2, 1, 0))


def fit(x: Floats, weights: Floats, plan: Plan) -> Fitted:
    """Choose scales of super-blocks without minima."""
    scales, square = fit_scales(x, weights, plan.levels, plan.starts)
    unit = _unit(scales, square, plan.scales)
    best = Best()
    for _ in range(_TURNS):
        unit = _half(unit)
        whole = plan.scales.nearest(scales * inverse(unit), square)
        scale = unit * whole
        near = plan.levels.nearest(x * inverse(scale), weights)
        best.offer(_error(x - scale * near, weights), near, whole, unit)
        of_levels = weights * near
        qq, qx = total(of_levels * near), total(of_levels * x)
        scales = np.where(qq > 0, qx * inverse(qq), scales)
        unit = total(qx * whole) * inverse(total(qq * whole * whole))
    near, whole, unit = best.found
    none = np.zeros_like(unit)
    return Fitted(levels=near, scales=whole, unit=unit, minima=none, minimum_unit=none)


def fit_with_minima(x: Floats, weights: Floats, plan: Plan) -> Fitted:
    """Choose scales and minima of super-blocks."""
    assert isinstance(plan.levels, Integers)
    scales, minima, square = fit_scales_and_minima(x, weights, plan.levels, plan.starts)
    one, first = total(weights), total(weights * x)
    unit, minimum_unit = _unit(scales, square, plan.scales), _unit(minima, one, plan.scales)
    best = Best()
    for _ in range(_TURNS):
        unit, minimum_unit = _half(unit), _half(minimum_unit)
        whole = plan.scales.nearest(scales * inverse(unit), square)
        least = plan.scales.nearest(minima * inverse(minimum_unit), one)
        scale, below = unit * whole, minimum_unit * least
        near = plan.levels.nearest((x + below) * inverse(scale), weights)
        error = _error(x + below - scale * near, weights)
        best.offer(error, near, whole, unit, least, minimum_unit)
        of_levels = weights * near
        q, qq, qx = total(of_levels), total(of_levels * near), total(of_levels * x)
        scales, shifts = line(one, first, q, qq, qx, most=np.zeros_like(one))
        minima = -shifts
        unit, minimum_unit = _units(
            whole * whole * qq, whole * least * q, least * least * one, whole * qx, least * first
        )
    near, whole, unit, least, minimum_unit = best.found
    return Fitted(levels=near, scales=whole, unit=unit, minima=least, minimum_unit=minimum_unit)


def _half(values: Floats) -> Floats:
    """Values as a half holds them; Inf for what is too large, and 0 without a sign."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32) + np.float32(0)


def _unit(scales: Floats, weights: Floats, levels: Levels) -> Floats:
    unit, _ = fit_scales(scales, weights, levels, _UNITS)
    return unit


def _units(ss: Floats, sm: Floats, mm: Floats, sx: Floats, mx: Floats) -> tuple[Floats, Floats]:
    """Units of scales and of minima by least squares together, from the sums of each group."""
    ss, sm, mm, sx, mx = (total(part) for part in (ss, sm, mm, sx, mx))
    over = inverse(ss * mm - sm * sm)
    unit = np.where(over == 0, sx * inverse(ss), (mm * sx - sm * mx) * over)
    return unit, np.maximum((sm * sx - ss * mx) * over, 0)


def _error(off: Floats, weights: Floats) -> Floats:
    """The sum over each block, of the first elements of its groups before their second ones."""
    squares = weights * off * off
    return total(squares.reshape(-1, squares.shape[-1]))
