"""Decoders and encoders in numpy for the formats that the gguf package lacks.

All arithmetic is float32, each operation rounded to nearest even and none fused, in the order that
is written here: a kernel that does the same steps makes the same bytes. Inputs are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Bits = NDArray[np.integer]  # bytes; numpy's types call what shifts return signed

LEAST_NORMAL = np.float32(2.0**-126)  # a scale below counts as 0: devices may flush it
TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)  # iq4_nl's
_MIDDLES = np.array(TABLE[:-1], np.float32) / 2 + np.array(TABLE[1:], np.float32) / 2


def decode_q8_1(blocks: Bytes) -> Floats:
    """f16 d, f16 d * sum(q), 32 signed bytes q: d * q."""
    return _half(blocks[:, :2]) * blocks[:, 4:].view(np.int8).astype(np.float32)


def decode_q8_k(blocks: Bytes) -> Floats:
    """f32 d, 256 signed bytes q, 16 sums of 16 q: d * q."""
    scales = np.ascontiguousarray(blocks[:, :4]).view("<f4")
    return scales * blocks[:, 4:260].view(np.int8).astype(np.float32)


def decode_q1_0(blocks: Bytes) -> Floats:
    """f16 d, 128 bits, low ones first: d where the bit is set, else -d."""
    bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(bool)
    scales = _half(blocks[:, :2])
    return np.where(bits, scales, -scales)


def decode_q2_0(blocks: Bytes) -> Floats:
    """f16 d, 64 times two bits q, low ones first: d * (q - 1)."""
    fields = blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)
    return _half(blocks[:, :2]) * (fields.reshape(len(blocks), 64).astype(np.float32) - 1)


def encode_q8_1(values: Floats) -> Bytes:
    """d = amax / 127, q = x * (1 / d) rounded, halves away from 0; stored: f16(d), f16(sum(q) * d).

    The sum of the integers is exact; it is multiplied by d as it was before it became a half.
    """
    d = _amax(values) / np.float32(127)
    q = _round_half_away(values * _inverse(d))
    sums = q.sum(axis=1, keepdims=True, dtype=np.float32) * d
    return _join_fields(d, sums, q.astype(np.int8).view(np.uint8))


def encode_q1_0(values: Floats) -> Bytes:
    """d = (sum of |x|, one after the other from the first on) / 128; a bit is set where x >= 0."""
    total = np.zeros((len(values), 1), np.float32)
    for column in range(values.shape[1]):
        total += np.abs(values[:, column : column + 1])
    d = total / np.float32(128)
    return _join_fields(d, np.packbits(values >= 0, axis=1, bitorder="little"))


def encode_q2_0(values: Floats) -> Bytes:
    """d = amax, q = x * (1 / d) rounded, halves away from 0, plus 1: 0, 1 or 2, never 3."""
    d = _amax(values)
    q = (_round_half_away(values * _inverse(d)) + 1).astype(np.uint8).reshape(len(values), 16, 4)
    return _join_fields(d, np.bitwise_or.reduce(q << np.array([0, 2, 4, 6], np.uint8), axis=2))


def encode_iq4_nl(values: Floats) -> Bytes:
    """The nearest values of the table under one scale, then the scale that suits them best.

    With v the first x of largest |x|: d = v / -127, u = x * (1 / d), q = how many of the 15 middles
    between neighbours in the table are <= u. Then, T the table and w = u * u, with two sums that
    start at 0 and run from the first element to the last: a += (w * T[q]) * u and
    b += (w * T[q]) * T[q]; stored: f16(d * (a / b)), or f16(d) where b is 0.

    ggml searches through 15 scales for a better one. This is the step its GPU kernels take; with u
    in the place of x, so that no huge or tiny x spoils the sums.
    """
    first = np.abs(values).argmax(axis=1)[:, None]
    d = np.take_along_axis(values, first, axis=1) / np.float32(-127)
    u = values * _inverse(d)
    q = np.searchsorted(_MIDDLES, u.ravel(), side="right").astype(np.uint8).reshape(u.shape)
    decoded = np.array(TABLE, np.float32)[q]
    weighted = u * u * decoded
    a, b = np.zeros_like(d), np.zeros_like(d)
    for column in range(values.shape[1]):
        at = slice(column, column + 1)
        a += weighted[:, at] * u[:, at]
        b += weighted[:, at] * decoded[:, at]
    refit = d * np.divide(a, b, out=np.ones_like(a), where=b != 0)
    return _join_fields(refit, q[:, :16] | q[:, 16:] << np.uint8(4))


def nibbles(codes: Bits, run: int) -> Bits:
    """Runs of codes in pairs: the first run in the low nibbles, the second in the high ones."""
    pairs = codes.reshape(len(codes), -1, 2, run)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(codes), -1)


def _half(stored: Bytes) -> Floats:
    return np.ascontiguousarray(stored).view("<f2").astype(np.float32)


def _amax(values: Floats) -> Floats:
    return np.asarray(np.abs(values).max(axis=1, keepdims=True))


def _inverse(scales: Floats) -> Floats:
    """1 / d, and 0 for a d below the least normal number."""
    usable = np.abs(scales) >= LEAST_NORMAL
    return np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=usable)


def _round_half_away(values: Floats) -> Floats:
    """Numbers rounded to the nearest integer, halves away from 0: C's roundf."""
    whole = np.trunc(values)
    return np.asarray(whole + np.trunc(2 * (values - whole)))


def _join_fields(*fields: NDArray[np.generic]) -> Bytes:
    """Blocks of the fields, one after the other; floats as halves."""
    exact = (field if field.dtype == np.uint8 else field.astype("<f2") for field in fields)
    parts = [field.view(np.uint8) for field in exact]
    return np.concatenate(parts, axis=1)


DECODERS: Mapping[str, Callable[[Bytes], Floats]] = {
    "q8_1": decode_q8_1,
    "q8_K": decode_q8_k,
    "q1_0": decode_q1_0,
    "q2_0": decode_q2_0,
}
ENCODERS: Mapping[str, Callable[[Floats], Bytes]] = {
    "q8_1": encode_q8_1,
    "q1_0": encode_q1_0,
    "q2_0": encode_q2_0,
    "iq4_nl": encode_iq4_nl,
}
