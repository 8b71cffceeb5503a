"""Stored blocks and what they stand for, against decoders and encoders written out one by one."""

from __future__ import annotations

import struct
from itertools import chain

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import IQ4_NL, dequantize, quantize
from numpy.typing import NDArray

from vkbench.errors import UnknownName
from vkbench_shaders.formats import ENCODED, PLAIN, QUANTISED, format_named
from vkbench_shaders.quantisers import codecs
from vkbench_shaders.quantisers.quants import dequantise, quantise

Floats = NDArray[np.float32]

OURS = ("q8_1", "q8_K", "q1_0", "q2_0")  # decoders that gguf lacks
ENCODED_HERE = ("q8_1", "q1_0", "q2_0", "iq4_nl")
single = np.float32


def decoded_q4_0(block: bytes) -> list[float]:
    (scale,) = struct.unpack("<e", block[:2])
    nibbles = [byte & 15 for byte in block[2:]] + [byte >> 4 for byte in block[2:]]
    return [scale * (nibble - 8) for nibble in nibbles]


def decoded_q8_0(block: bytes) -> list[float]:
    scale, *numbers = struct.unpack("<e32b", block)
    return [scale * number for number in numbers]


def decoded_q8_1(block: bytes) -> list[float]:
    scale, _, *numbers = struct.unpack("<ee32b", block)
    return [scale * number for number in numbers]


def decoded_q8_k(block: bytes) -> list[float]:
    scale, *numbers = struct.unpack("<f256b16h", block)
    return [float(single(scale) * single(number)) for number in numbers[:256]]


def decoded_q1_0(block: bytes) -> list[float]:
    (scale,) = struct.unpack("<e", block[:2])
    bits = int.from_bytes(block[2:], "little")
    return [scale if bits >> at & 1 else -scale for at in range(128)]


def decoded_q2_0(block: bytes) -> list[float]:
    (scale,) = struct.unpack("<e", block[:2])
    bits = int.from_bytes(block[2:], "little")
    return [scale * ((bits >> 2 * at & 3) - 1) for at in range(64)]


DECODERS = {
    "q4_0": decoded_q4_0,
    "q8_0": decoded_q8_0,
    "q8_1": decoded_q8_1,
    "q8_K": decoded_q8_k,
    "q1_0": decoded_q1_0,
    "q2_0": decoded_q2_0,
}


def any_blocks(name: str, rows: int, blocks: int) -> NDArray[np.uint8]:
    """Any bytes, under scales from the least to the largest half."""
    size = format_named(name).bytes
    random = np.random.default_rng(7)
    stored = random.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    scales = random.integers(0, 1 << 16, (rows, blocks), dtype=np.uint16)
    scales[scales & 0x7C00 == 0x7C00] = 0x8001  # not infinite: the least negative half
    stored[:, :, :2] = scales[:, :, None].view(np.uint8)
    if name == "q8_K":
        stored[:, :, 3] &= 0xBF  # a single below 2
    return stored.reshape(rows, blocks * size)


@pytest.mark.parametrize("name", DECODERS)
def test_decoding_is_exact_for_any_block(name: str) -> None:
    size = format_named(name).bytes
    stored = any_blocks(name, 5, 40)
    expected = [
        [*chain(*(DECODERS[name](block.tobytes()) for block in row.reshape(-1, size)))]
        for row in stored
    ]
    found = dequantise(name, stored)
    assert found.dtype == np.float64
    assert found.tobytes() == np.array(expected).tobytes()


@pytest.mark.parametrize("name", [name for name in QUANTISED if name not in OURS])
def test_decoding_is_gguf_s_bit_for_bit_whatever_the_rows(name: str) -> None:
    fmt = format_named(name)
    assert fmt.ggml is not None
    stored = np.random.default_rng(5).integers(0, 256, (3, 2, 5 * fmt.bytes), dtype=np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = dequantize(stored, GGMLQuantizationType(fmt.ggml)).astype(np.float64)
    found = dequantise(name, stored)
    assert found.shape == (3, 2, 5 * fmt.elements)
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("name", QUANTISED)
def test_large_arrays_decode_as_their_rows_do(name: str) -> None:
    stored = any_blocks(name, 2, (1 << 18) // format_named(name).elements + 3)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = [dequantise(name, row[None]) for row in stored]
    assert np.array_equal(dequantise(name, stored), np.concatenate(rows), equal_nan=True)


@pytest.mark.parametrize("name", QUANTISED)
def test_weights_are_singles(name: str) -> None:
    found = dequantise(name, any_blocks(name, 4, 8))
    with np.errstate(invalid="ignore"):
        assert np.array_equal(found, found.astype(np.float32), equal_nan=True)


def test_bf16_is_the_upper_half_of_a_single() -> None:
    values = np.array([[1.0, -2.5, 3.0e38, 1.0 + 2**-8, 1.0 + 3 * 2**-8, -0.0, 1e-40]], np.float32)
    stored = quantise("bf16", values)
    assert stored.dtype == np.uint16
    upper = stored.astype(np.uint32) << 16
    assert np.array_equal(dequantise("bf16", stored), upper.view(np.float32))
    assert dequantise("bf16", stored)[0, 3:5].tolist() == [1.0, 1.0 + 2**-6]  # ties to even
    assert np.signbit(dequantise("bf16", stored)[0, 5])


def test_integers_are_what_they_are() -> None:
    assert dequantise("i32", np.array([[-(2**31), 2**31 - 1]], np.int32)).tolist() == [
        [-(2.0**31), 2.0**31 - 1]
    ]


NMSE = {  # of the formats' quantisers in ggml, no importance given, on N(0,1)
    "q4_0": 7.41e-3,
    "q4_1": 6.17e-3,
    "q5_0": 1.85e-3,
    "q5_1": 1.45e-3,
    "q8_0": 2.90e-5,
    "q8_1": 2.90e-5,
    "iq4_nl": 5.77e-3,
    "tq1_0": 6.56e-1,
    "tq2_0": 6.56e-1,
    "mxfp4": 1.35e-2,
    "q1_0": 3.58e-1,
    "q2_0": 5.26e-1,
    "f16": 4.3e-8,
    "bf16": 2.75e-6,
}


@pytest.mark.parametrize("name", NMSE)
def test_quantising_loses_what_the_format_must_lose(name: str) -> None:
    values = np.random.default_rng(3).standard_normal((256, 1024)).astype(np.float32)
    error = dequantise(name, quantise(name, values)) - values
    assert np.mean(error**2) / np.mean(values.astype(float) ** 2) == pytest.approx(
        NMSE[name], rel=0.1
    )


def test_every_encoded_format_has_its_loss_checked() -> None:
    assert {*ENCODED, *PLAIN, "tq1_0"} - {"f32"} == set(NMSE)


def hard_values(elements: int) -> Floats:
    """Blocks of random values at many scales, with zeros, huge, tiny and tied ones among them."""
    random = np.random.default_rng(11)
    values = random.standard_normal((400, elements)).astype(np.float32)
    values[:80] *= np.exp2(random.integers(-149, 120, (80, 1))).astype(np.float32)
    values[80:160] *= np.exp2(random.integers(-40, 15, (80, elements))).astype(np.float32)
    values[160:240] = random.integers(-4, 5, (80, elements)) / 2
    values[240:250] = 0
    values[250:260] = -0.0
    values[260] = 3e38
    values[261] = -3e38
    values[262] = 1e-45
    values[263:300, 1:] = 0
    return values


@pytest.mark.parametrize("name", [*sorted({*ENCODED} - {*ENCODED_HERE}), "tq1_0"])
def test_encoding_is_gguf_s_byte_for_byte(name: str) -> None:
    values = hard_values(1024)
    with np.errstate(all="ignore"):
        expected = quantize(values, GGMLQuantizationType[name.upper()])
    assert np.array_equal(quantise(name, values), expected)


def inverse(scale: np.float32) -> np.float32:
    return single(1) / scale if abs(scale) >= single(2.0**-126) else single(0)


def half(value: np.float32) -> bytes:
    with np.errstate(over="ignore"):
        return np.float16(value).tobytes()


def rounded(value: np.float32) -> int:
    """C's roundf."""
    return int(float(value) + (0.5 if value >= 0 else -0.5))


def encoded_q8_1(block: list[np.float32]) -> bytes:
    d = max(map(abs, block)) / single(127)
    q = [rounded(x * inverse(d)) for x in block]
    return half(d) + half(single(sum(q)) * d) + struct.pack("<32b", *q)


def encoded_q1_0(block: list[np.float32]) -> bytes:
    total = single(0)
    for x in block:
        total += abs(x)
    bits = sum(1 << at for at, x in enumerate(block) if x >= 0)
    return half(total / single(128)) + bits.to_bytes(16, "little")


def encoded_q2_0(block: list[np.float32]) -> bytes:
    d = max(map(abs, block))
    bits = sum(rounded(x * inverse(d)) + 1 << 2 * at for at, x in enumerate(block))
    return half(d) + bits.to_bytes(16, "little")


def encoded_iq4_nl(block: list[np.float32]) -> bytes:
    table = [single(value) for value in IQ4_NL.kvalues]
    d = max(block, key=abs) / single(-127)
    a, b, indices = single(0), single(0), []
    for x in block:
        u = x * inverse(d)
        exact = float(u)  # the upper of two that are equally near
        index = min(range(16), key=lambda at: (abs(float(table[at]) - exact), -at))
        indices.append(index)
        a += u * u * table[index] * u
        b += u * u * table[index] * table[index]
    refit = d * (a / b) if b != 0 else d
    return half(refit) + bytes(indices[at] | indices[at + 16] << 4 for at in range(16))


ENCODERS = {
    "q8_1": encoded_q8_1,
    "q1_0": encoded_q1_0,
    "q2_0": encoded_q2_0,
    "iq4_nl": encoded_iq4_nl,
}


@pytest.mark.parametrize("name", ENCODERS)
def test_encoding_is_as_it_says_step_by_step(name: str) -> None:
    values = hard_values(format_named(name).elements)
    if name == "q1_0":
        values[260:262] /= 256  # the sum would be Inf
    found = quantise(name, values)
    with np.errstate(all="ignore"):
        expected = [ENCODERS[name]([*block]) for block in values]
    assert [row.tobytes() for row in found] == expected


def test_the_table_of_iq4_nl_is_gguf_s() -> None:
    assert IQ4_NL.kvalues == codecs.TABLE


@pytest.mark.parametrize("name", ["q8_1", "q8_0", "q4_0", "q2_0", "q1_0"])
def test_what_a_format_can_hold_comes_back_whole(name: str) -> None:
    fmt = format_named(name)
    levels = {"q8_1": 255, "q8_0": 255, "q4_0": 16, "q2_0": 3}.get(name, 2)
    q = np.random.default_rng(2).integers(0, levels, (5, fmt.elements)) - levels // 2
    q[:, 0] = -(levels // 2)
    values = (np.where(q == 0, 1, q) if name == "q1_0" else q).astype(np.float32) / 4
    assert np.array_equal(dequantise(name, quantise(name, values)), values)


@pytest.mark.parametrize("name", ENCODED)
def test_quantised_rows_are_bytes_of_whole_blocks(name: str) -> None:
    fmt = format_named(name)
    stored = quantise(name, np.zeros((3, 2, 3 * fmt.elements), np.float32))
    assert (str(stored.dtype), stored.shape) == ("uint8", (3, 2, 3 * fmt.bytes))
    assert not dequantise(name, stored).any()


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UnknownName, match="q4_9"):
        dequantise("q4_9", np.zeros((1, 18), np.uint8))
