"""Stored blocks and what they stand for, against a decoder written out block by block."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from numpy.typing import NDArray

from vkbench.errors import UnknownName
from vkbench_shaders.quants import dequantise, quantise


def decoded_q4_0(block: NDArray[np.uint8]) -> list[float]:
    scale = float(block[:2].view("<f2")[0])
    nibbles = [byte & 15 for byte in block[2:].tolist()] + [
        byte >> 4 for byte in block[2:].tolist()
    ]
    return [scale * (nibble - 8) for nibble in nibbles]


def decoded_q8_0(block: NDArray[np.uint8]) -> list[float]:
    scale = float(block[:2].view("<f2")[0])
    return [scale * value for value in block[2:].view(np.int8).tolist()]


DECODERS = {"q4_0": (18, decoded_q4_0), "q8_0": (34, decoded_q8_0)}


def any_blocks(name: str, rows: int, blocks: int) -> NDArray[np.uint8]:
    """Any bytes, under scales from the least to the largest half."""
    size = DECODERS[name][0]
    random = np.random.default_rng(7)
    stored = random.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    scales = random.integers(0, 1 << 16, (rows, blocks), dtype=np.uint16)
    scales[scales & 0x7C00 == 0x7C00] = 0x8001  # not infinite: the least negative half
    stored[:, :, :2] = scales[:, :, None].view(np.uint8)
    return stored.reshape(rows, blocks * size)


@pytest.mark.parametrize("name", DECODERS)
def test_decoding_is_exact_for_any_block(name: str) -> None:
    size, decode = DECODERS[name]
    stored = any_blocks(name, 5, 40)
    expected = [[*chain(*map(decode, row.reshape(-1, size)))] for row in stored]
    found = dequantise(name, stored)
    assert found.dtype == np.float64
    assert found.tobytes() == np.array(expected).tobytes()


@pytest.mark.parametrize(
    ("name", "most"), [("q4_0", 1e-2), ("q8_0", 5e-5), ("f16", 1e-6), ("f32", 0.0)]
)
def test_quantising_loses_what_the_format_must_lose(name: str, most: float) -> None:
    values = np.random.default_rng(3).standard_normal((16, 256)).astype(np.float32)
    error = dequantise(name, quantise(name, values)) - values
    assert np.mean(error**2) <= most * np.mean(values.astype(float) ** 2)


def test_what_a_format_can_hold_comes_back_whole() -> None:
    values = (np.arange(64, dtype=np.float32).reshape(2, 32) % 16 - 8) / 4
    assert np.array_equal(dequantise("q4_0", quantise("q4_0", values)), values)


def test_quantised_rows_are_bytes_of_whole_blocks() -> None:
    stored = quantise("q4_0", np.zeros((3, 96), np.float32))
    assert (str(stored.dtype), stored.shape) == ("uint8", (3, 54))


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UnknownName, match="q4_9"):
        dequantise("q4_9", np.zeros((1, 18), np.uint8))
