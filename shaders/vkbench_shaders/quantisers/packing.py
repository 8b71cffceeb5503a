"""How fitted super-blocks are packed, byte for byte as GGML has them: q2_K to q6_K, and iq4_xs."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.quantisers.codecs import Bits, nibbles
from vkbench_shaders.quantisers.levels import Codes, Floats, Levels
from vkbench_shaders.quantisers.super_blocks import Fitted

_PAIRS = np.array([0, 2, 4, 6], np.uint8)


def pack_q2_k(fitted: Fitted, levels: Levels) -> Codes:
    """16 bytes of scale and minimum, 64 of codes, the units of scales and minima."""
    scales, minima = _bytes(fitted.scales), _bytes(fitted.minima)
    codes = _in_order(fitted.levels, levels)
    units = _halves(fitted.unit), _halves(fitted.minimum_unit)
    return _join_fields(scales | minima << 4, _quarters(codes), *units)


def pack_q3_k(fitted: Fitted, levels: Levels) -> Codes:
    """A third bit of each code, 64 bytes of the other two, 12 of scales, their unit."""
    codes = _in_order(fitted.levels, levels)
    scales = _bytes(fitted.scales + 32)
    low = scales[:, :8] & 15 | scales[:, 8:] << 4
    high = (scales >> 4).reshape(-1, 4, 4) << _PAIRS[:, None]
    packed = np.bitwise_or.reduce(high, axis=1)
    return _join_fields(
        _planes(codes >> 2, 32), _quarters(codes & 3), low, packed, _halves(fitted.unit)
    )


def pack_q4_k(fitted: Fitted, levels: Levels) -> Codes:
    """The units of scales and minima, 12 bytes of those, 128 of codes."""
    return _join_fields(_head(fitted), nibbles(_in_order(fitted.levels, levels), 32))


def pack_q5_k(fitted: Fitted, levels: Levels) -> Codes:
    """Blocks like q4_K's, with a fifth bit of each code before the others."""
    codes = _in_order(fitted.levels, levels)
    return _join_fields(_head(fitted), _planes(codes >> 4, 32), nibbles(codes & 15, 32))


def pack_q6_k(fitted: Fitted, levels: Levels) -> Codes:
    """128 bytes of the low four bits of each code, 64 of the high two, 16 of scales, their unit."""
    codes = _in_order(fitted.levels, levels)
    scales = np.ascontiguousarray(fitted.scales.T).astype(np.int8).view(np.uint8)
    return _join_fields(
        nibbles(codes & 15, 64), _quarters(codes >> 4), scales, _halves(fitted.unit)
    )


def pack_iq4_nl(fitted: Fitted, levels: Levels) -> Codes:
    """The unit, 16 bytes of codes."""
    return _join_fields(_halves(fitted.unit), nibbles(_in_order(fitted.levels, levels), 16))


def pack_iq4_xs(fitted: Fitted, levels: Levels) -> Codes:
    """The unit, the high two bits of eight scales, their low four, 128 bytes of codes."""
    scales = _bytes(fitted.scales + 32)
    high = np.bitwise_or.reduce((scales >> 4).reshape(-1, 2, 4) << _PAIRS, axis=2)
    low = scales[:, ::2] & 15 | scales[:, 1::2] << 4
    codes = _in_order(fitted.levels, levels)
    return _join_fields(_halves(fitted.unit), high, low, nibbles(codes, 16))


def _head(fitted: Fitted) -> Codes:
    """Two units, and eight scales and minima of six bits: the upper bits of four in others' top."""
    scales, minima = _bytes(fitted.scales), _bytes(fitted.minima)
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = minima[:, :4] | minima[:, 4:] >> 4 << 6
    third = scales[:, 4:] & 15 | minima[:, 4:] << 4
    return _join_fields(_halves(fitted.unit), _halves(fitted.minimum_unit), first, second, third)


def _in_order(values: Floats, levels: Levels) -> Codes:
    """Codes as (blocks, elements)."""
    codes = levels.codes(values).astype(np.uint8).transpose(2, 1, 0)
    return np.ascontiguousarray(codes).reshape(len(codes), -1)


def _bytes(values: Floats) -> Codes:
    """Small integers (groups, blocks) as (blocks, groups)."""
    return np.ascontiguousarray(values.T).astype(np.uint8)


def _halves(values: Floats) -> Codes:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)


def _quarters(codes: Bits) -> Bits:
    """Runs of 32 codes of two bits, four runs in the same bytes."""
    runs = codes.reshape(len(codes), -1, 4, 32) << _PAIRS[:, None]
    return np.asarray(np.bitwise_or.reduce(runs, axis=2).reshape(len(codes), -1))


def _planes(bits: Bits, run: int) -> Bits:
    """Runs of single bits, eight runs in the same bytes."""
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    return np.asarray(np.bitwise_or.reduce(bits.reshape(len(bits), 8, run) << shifts, axis=1))


def _join_fields(*fields: Bits) -> Codes:
    return np.concatenate(fields, axis=1, dtype=np.uint8)
