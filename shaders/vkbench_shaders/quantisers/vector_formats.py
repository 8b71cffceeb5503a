"""The formats whose codes stand for vectors of a grid, iq1_s to iq3_s: what they keep, and how.

A scale is an odd number times the block's unit. Grids of iq2 and iq3 hold magnitudes, and signs are
stored beside them; where the format has no room for the eighth of eight signs, it is what makes
their product positive, and the number that matters least gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.quantisers import grids
from vkbench_shaders.quantisers.levels import Codes, Floats, Levels, Table
from vkbench_shaders.quantisers.super_blocks import Fitted, Plan, fit, group_elements
from vkbench_shaders.quantisers.vectors import ShiftedVectors, Vectors

Words = NDArray[np.integer]

_SHIFT: Final = 0.125  # of the vectors of iq1_s and iq1_m
_TRIES: Final = 3  # five lose up to 2 % less, in iq3_s, and take half as long again
_SEVENS: Final = np.array([0, 7, 14, 21], np.uint32)
_THREES: Final = np.array([0, 3, 6, 9], np.uint16)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What is stored of blocks, each (blocks, number in a block)."""

    unit: NDArray[np.uint16]  # a half's bits
    scales: Words  # half of the odd number
    codes: Words
    signs: Words  # a byte for eight numbers, the first one in the lowest bit

    def pack_iq2_xxs(self) -> Codes:
        """Four codes of a byte, and a word of four signs and a scale, eight times."""
        words = self._signs_and_scales()
        codes = self.codes.astype(np.uint8).view("<u4")
        pairs = np.stack([codes, words], axis=2).reshape(len(codes), -1)
        return _join_fields(self.unit, pairs.astype("<u4"))

    def pack_iq2_xs(self) -> Codes:
        """A word of a code and signs for each vector; two scales in a byte."""
        words = (self.codes | (self.signs & 127).astype(np.uint16) << 9).astype("<u2")
        return _join_fields(self.unit, words, _nibbles(self.scales))

    def pack_iq2_s(self) -> Codes:
        """The low byte of each code, signs, the high two bits of four codes in a byte, scales."""
        high = _together(self.codes >> 8, 4, 2)
        return _join_fields(
            self.unit, _byte(self.codes), _byte(self.signs), high, _nibbles(self.scales)
        )

    def pack_iq3_xxs(self) -> Codes:
        """Codes, then words of four signs and a scale."""
        return _join_fields(self.unit, _byte(self.codes), self._signs_and_scales().astype("<u4"))

    def pack_iq3_s(self) -> Codes:
        """The low byte of each code, their ninth bits, signs, scales."""
        high = _together(self.codes >> 8, 8, 1)
        return _join_fields(
            self.unit, _byte(self.codes), high, _byte(self.signs), _nibbles(self.scales)
        )

    def pack_iq1_s(self) -> Codes:
        """The low byte of each code; words of four codes' high bits, a scale, and the shift."""
        codes = self.codes.reshape(len(self.codes), -1, 4)
        high = np.bitwise_or.reduce((codes >> 8 & 7).astype(np.uint16) << _THREES, axis=2)
        words = high | self.scales.astype(np.uint16) << 12 | (codes[..., 0] >> 15 << 15)
        return _join_fields(self.unit, _byte(self.codes), words.astype("<u2"))

    def pack_iq1_m(self) -> Codes:
        """The low byte of each code, nibbles of their high bits with the shift, and scales.

        Four scales are in a word, whose upper four bits are a piece of the unit.
        """
        scales = self.scales.astype(np.uint16).reshape(len(self.scales), 4, 4) << _THREES
        unit = self.unit[:, None] >> np.array([0, 4, 8, 12], np.uint16) << np.uint16(12)
        words = np.bitwise_or.reduce(scales, axis=2) | unit
        return _join_fields(None, _byte(self.codes), _nibbles(self.codes >> 8), words.astype("<u2"))

    def _signs_and_scales(self) -> NDArray[np.uint32]:
        signs = (self.signs & 127).astype(np.uint32).reshape(len(self.signs), -1, 4) << _SEVENS
        scales = self.scales.astype(np.uint32) << 28
        return np.asarray(np.bitwise_or.reduce(signs, axis=2) | scales)


def _quantise(
    plan: Callable[[], Plan],
    pack: Callable[[Parts], Codes],
    split: Callable[[Floats, Floats], NDArray[np.bool_]],
    blocks: Floats,
    weights: Floats,
) -> Codes:
    negative = split(blocks, weights)
    made = plan()
    values = np.where(negative, -blocks, blocks)
    fitted = fit(group_elements(values, made.group), group_elements(weights, made.group), made)
    return pack(_parts(fitted, made.levels, negative))


def _parts(fitted: Fitted, levels: Levels, negative: NDArray[np.bool_]) -> Parts:
    codes = levels.codes(fitted.levels).transpose(2, 1, 0)
    return Parts(
        unit=fitted.unit.astype("<f2").view("<u2"),
        scales=(fitted.scales.T.astype(np.int16) - 1) >> 1,
        codes=np.ascontiguousarray(codes).reshape(len(codes), -1),
        signs=np.packbits(negative, axis=1, bitorder="little"),
    )


def _no_signs(blocks: Floats, weights: Floats) -> NDArray[np.bool_]:
    """No signs apart: the vectors have their own."""
    return np.zeros(blocks.shape, np.bool_)


def _all_signs(blocks: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Which numbers are negative."""
    return blocks < 0


def _even_signs(blocks: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Signs, an even number of each eight: the one that matters least is changed."""
    eights = blocks.reshape(-1, 8)
    negative = eights < 0
    odd = np.flatnonzero(negative.sum(axis=1) & 1)
    least = (weights.reshape(-1, 8) * np.abs(eights))[odd].argmin(axis=1)
    negative[odd, least] ^= True
    return negative.reshape(blocks.shape)


@cache
def _magnitudes(grid: str, group: int, divisor: float, reach: float) -> Plan:
    table = (grids.values(grid) / divisor).astype(np.float32)
    return Plan(
        group=group,
        levels=Vectors(table),
        scales=_ODD_16,
        reach=reach,
        tries=_TRIES,
        others=(float(table.min() / table.max()),),  # equal numbers are a vector of the least
    )


@cache
def _ternary(group: int, is_shared: bool) -> Plan:
    """Vectors that are shifted by groups, or each by itself."""
    table = grids.values("IQ1_S").astype(np.float32)
    both = np.concatenate([table + _SHIFT, table - _SHIFT])
    levels = ShiftedVectors(table, _SHIFT) if is_shared else Vectors(both)
    return Plan(group=group, levels=levels, scales=_ODD_8, reach=0.4, tries=_TRIES)


def _byte(codes: Words) -> Codes:
    return (codes & 255).astype(np.uint8)


def _nibbles(values: Words) -> Codes:
    return _together(values, 2, 4)


def _together(values: Words, count: int, bits: int) -> Codes:
    """Bytes of so many values, so many bits each, the first in the lowest bits."""
    runs = values.reshape(len(values), -1, count) << np.arange(count) * bits
    return np.asarray(np.bitwise_or.reduce(runs, axis=2), np.uint8)


def _join_fields(unit: NDArray[np.uint16] | None, *fields: NDArray[np.integer]) -> Codes:
    head = () if unit is None else (unit[:, None],)
    parts = [np.ascontiguousarray(field).view(np.uint8) for field in (*head, *fields)]
    return np.concatenate(parts, axis=1)


_ODD_16: Final = Table(range(1, 32, 2))
_ODD_8: Final = Table(range(1, 16, 2))

QUANTISERS: Final[Mapping[str, Callable[[Floats, Floats], Codes]]] = {
    name: partial(_quantise, plan, pack, split)
    for name, plan, pack, split in (
        ("iq2_xxs", partial(_magnitudes, "IQ2_XXS", 32, 8.0, 0.3), Parts.pack_iq2_xxs, _even_signs),
        ("iq2_xs", partial(_magnitudes, "IQ2_XS", 16, 8.0, 0.3), Parts.pack_iq2_xs, _even_signs),
        ("iq2_s", partial(_magnitudes, "IQ2_S", 16, 8.0, 0.3), Parts.pack_iq2_s, _all_signs),
        ("iq3_xxs", partial(_magnitudes, "IQ3_XXS", 32, 4.0, 0.2), Parts.pack_iq3_xxs, _even_signs),
        ("iq3_s", partial(_magnitudes, "IQ3_S", 32, 1.0, 0.2), Parts.pack_iq3_s, _all_signs),
        ("iq1_s", partial(_ternary, 32, True), Parts.pack_iq1_s, _no_signs),
        ("iq1_m", partial(_ternary, 16, False), Parts.pack_iq1_m, _no_signs),
    )
}
