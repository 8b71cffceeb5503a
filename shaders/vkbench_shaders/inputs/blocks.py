"""Blocks of any quantised format to test with: random bits under scales that are bounded.

A format's row says where its scales lie; all other bits may be anything. Every so often a block is
an edge case, see EDGES, so that every kind occurs among the first hundred blocks and again all
through a large matrix, of which a check samples rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import Format, Scale
from vkbench_shaders.inputs import noise

Bytes = NDArray[np.uint8]
Codes = NDArray[np.unsignedinteger]  # scales as they are stored
Floats = NDArray[np.float32]
Seed = Callable[[str], int]

EDGES = ("zero", "negative", "largest", "denormal", "ones", "zeros")  # scales, then other bits
EDGE_EVERY = 13  # of so many blocks, one is an edge block: the one at EDGE_AT; kinds take turns
EDGE_AT = 2
LARGEST = 32.0  # units that the largest scale stays just below


def random_blocks(fmt: Format, seed: Seed, rows: int, blocks: int) -> Bytes:
    """Rows of blocks, in bytes: outlier blocks, scales that differ by row, rows of zeros."""
    stored = noise.raw(seed("values"), rows * blocks * fmt.bytes).reshape(-1, fmt.bytes)
    by_row = noise.rows(seed("rows"), rows)
    factors = by_row * noise.channels(seed("channels"), blocks, one_in=64)
    for number, scale in enumerate(fmt.scales):
        values = noise.bell(seed(f"scales{number}"), (rows, blocks)) * factors
        write_scale(
            stored, scale, _KINDS[scale.kind].codes(values.ravel() * np.float32(scale.unit))
        )
    zero = np.repeat(by_row.ravel() == 0, blocks)
    if any(scale.kind == "e8m0" for scale in fmt.scales):  # a scale that is never 0
        stored[zero] &= ~other_bits(fmt)
    for edge in EDGES:
        places = edge_places(edge, len(stored))
        places = places[~zero[places]]
        stored[places] = _edge_blocks(fmt, edge, stored[places])
    if fmt.name in _COMPLETED:
        _COMPLETED[fmt.name](stored)
    return stored.reshape(rows, blocks * fmt.bytes)


def edge_places(edge: str, blocks: int) -> NDArray[np.intp]:
    """Which of so many blocks, row after row, are edge blocks of a kind, unless in a zero row."""
    return np.arange(EDGE_AT + EDGES.index(edge) * EDGE_EVERY, blocks, len(EDGES) * EDGE_EVERY)


def _edge_blocks(fmt: Format, edge: str, blocks: Bytes) -> Bytes:
    if edge == "ones":
        return blocks | other_bits(fmt)
    if edge == "zeros":
        return blocks & ~other_bits(fmt)
    for scale in fmt.scales:
        kind = _KINDS[scale.kind]
        codes = read_scale(blocks, scale)
        if edge == "negative":
            codes |= codes.dtype.type(kind.sign)
        elif edge == "largest":
            codes[:] = kind.codes(np.array([LARGEST * scale.unit * (1 - 2**-11)], np.float32))
        else:
            codes[:] = kind.zero if edge == "zero" else kind.denormal
        write_scale(blocks, scale, codes)
    return blocks


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How a scale is stored."""

    codes: Callable[[Floats], Codes]
    zero: int
    denormal: int
    sign: int = 0  # its bit, if it has one


def _as_half(values: Floats) -> Codes:
    with np.errstate(under="ignore"):  # a scale may be denormal, or 0
        return np.asarray(values.astype("<f2").view("<u2"))


def _as_exponent(values: Floats) -> Codes:
    """The power of two below, as e8m0; for 0, which has none, 1/2."""
    exponents = np.frexp(values)[1] + 126
    return np.asarray(np.clip(exponents, _LEAST_EXPONENT, 254).astype(np.uint8))


def _as_ue4m3(values: Floats) -> Codes:
    """The number towards 0 as four bits of exponent and three of mantissa, at most 448."""
    fractions, exponents = np.frexp(np.abs(values))
    normal = (exponents + 6) * 8 + (fractions * 16).astype(np.int32) - 8
    denormal = (np.abs(values) * 512).astype(np.int32)
    return np.minimum(np.where(np.abs(values) >= 2**-6, normal, denormal), 0x7E).astype(np.uint8)


# Devices may flush float32 denormals, so mxfp4's weights and q8_K's are never that: scales that
# make them, and mxfp4's zero, give way to the least scale that does not.
_LEAST_EXPONENT = 2
_KINDS: Mapping[str, _Kind] = {
    "f16": _Kind(codes=_as_half, zero=0, denormal=0x0155, sign=0x8000),
    "spread": _Kind(codes=_as_half, zero=0, denormal=0x0155, sign=0x8000),
    "f32": _Kind(codes=lambda values: values.view("<u4"), zero=0, denormal=1 << 23, sign=1 << 31),
    "e8m0": _Kind(codes=_as_exponent, zero=_LEAST_EXPONENT, denormal=_LEAST_EXPONENT),
    "ue4m3": _Kind(codes=_as_ue4m3, zero=0x7F, denormal=3),  # 7F: no number, and read as 0
}
_BYTES = {"f16": 2, "spread": 8, "f32": 4, "e8m0": 1, "ue4m3": 1}  # that a scale lies in
_NIBBLES = np.array([0, 4, 8, 12], np.uint16)  # of a spread scale, in the order of its words


def _field(blocks: Bytes, scale: Scale) -> Bytes:
    return blocks[:, scale.offset : scale.offset + _BYTES[scale.kind]]


def read_scale(blocks: Bytes, scale: Scale) -> Codes:
    """A scale of every block, as it is stored."""
    field = np.ascontiguousarray(_field(blocks, scale))
    if scale.kind == "spread":
        return np.asarray(np.bitwise_or.reduce(field.view("<u2") >> 12 << _NIBBLES, axis=1))
    return field.view(f"<u{_BYTES[scale.kind]}")[:, 0]


def write_scale(blocks: Bytes, scale: Scale, codes: Codes) -> None:
    """Puts a scale into every block."""
    field = _field(blocks, scale)
    if scale.kind == "spread":
        others = np.ascontiguousarray(field).view("<u2") & np.uint16(0x0FFF)
        codes = others | (codes[:, None] >> _NIBBLES) << np.uint16(12)
    field[:] = codes.view(np.uint8).reshape(field.shape)


def other_bits(fmt: Format) -> Bytes:
    """A mask of one block: the bits that are no scale's."""
    mask = np.full((1, fmt.bytes), 0xFF, np.uint8)
    for scale in fmt.scales:
        write_scale(mask, scale, np.zeros_like(read_scale(mask, scale)))
    return mask


def _complete_q8_1(blocks: Bytes) -> None:
    """Second half: the first times the sum of all numbers."""
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    sums = blocks[:, 4:].view(np.int8).sum(axis=1, keepdims=True, dtype=np.float32)
    blocks[:, 2:4] = (scales * sums).astype("<f2").view(np.uint8)


def _complete_q8_k(blocks: Bytes) -> None:
    """Sums of 16 numbers each."""
    numbers = blocks[:, 4:260].view(np.int8).reshape(-1, 16, 16)
    blocks[:, 260:] = numbers.sum(axis=2, dtype="<i2").view(np.uint8)


_COMPLETED: Mapping[str, Callable[[Bytes], None]] = {"q8_1": _complete_q8_1, "q8_K": _complete_q8_k}
