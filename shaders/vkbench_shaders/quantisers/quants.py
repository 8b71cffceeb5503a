"""Quantises numbers to blocks and decodes them on the CPU, as the reference for kernels.

By gguf where it can, by `codecs` where it cannot. gguf is imported when first needed, so that
reading the catalogue stays quick. Sizes of blocks are those of `formats`: gguf has another for
q8_1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import Array, Format, format_named
from vkbench_shaders.quantisers import codecs, narrow

_PART = 1 << 18  # weights at a time: temporaries stay in a cache, and are few


def dequantise(name: str, stored: Array) -> NDArray[np.float64]:
    """What a storage array (..., items a row) stands for, in float64.

    Weights are decoded in float32, as CPUs do it and GPUs have to, and then widened. That is the
    exact value of a weight: products are judged by it and not by what a formula would give in
    float64, which for formats with minima or products of scales differs in the last bits.
    """
    fmt = format_named(name)
    if fmt.name in narrow.DECODERS:
        return narrow.DECODERS[fmt.name](stored)
    if not fmt.quantised:
        return stored.astype(np.float64)
    blocks = np.ascontiguousarray(stored).view(np.uint8).reshape(-1, fmt.bytes)
    values = np.empty((len(blocks), fmt.elements))
    with np.errstate(over="ignore", invalid="ignore"):  # a scale may be Inf
        for part in _parts(fmt, len(blocks)):
            values[part] = _decode_blocks(fmt, blocks[part])
    return values.reshape(*stored.shape[:-1], fmt.numbers(stored.shape[-1]))


def quantise(name: str, values: Array) -> Array:
    """Values (..., elements a row) as the storage array of a plain or an encoded format.

    Scales too large for their field become infinite, as they do in ggml.
    """
    fmt = format_named(name)
    with np.errstate(all="ignore"):
        if fmt.name in narrow.ENCODERS:
            return narrow.ENCODERS[fmt.name](values.astype(np.float64))
        if not fmt.quantised:
            return values.astype(fmt.dtype)
        blocks = np.ascontiguousarray(values, np.float32).reshape(-1, fmt.elements)
        stored = np.empty((len(blocks), fmt.bytes), np.uint8)
        for part in _parts(fmt, len(blocks)):
            stored[part] = _encode_numbers(fmt, blocks[part])
    return stored.view(fmt.dtype).reshape(*values.shape[:-1], fmt.items(values.shape[-1]))


def _parts(fmt: Format, blocks: int) -> Iterator[slice]:
    step = _PART // fmt.elements
    return (slice(first, first + step) for first in range(0, blocks, step))


def _decode_blocks(fmt: Format, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    if fmt.name in codecs.DECODERS:
        return codecs.DECODERS[fmt.name](blocks)
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    # One row: gguf takes 16 at a time, which is slow when they are short.
    values = dequantize(blocks.reshape(1, -1), GGMLQuantizationType(_number(fmt)))
    return np.asarray(values).reshape(-1, fmt.elements)


def _encode_numbers(fmt: Format, blocks: NDArray[np.float32]) -> NDArray[np.uint8]:
    if fmt.name in codecs.ENCODERS:
        return codecs.ENCODERS[fmt.name](blocks)
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    stored = quantize(blocks.reshape(1, -1), GGMLQuantizationType(_number(fmt)))
    return np.asarray(stored).view(np.uint8).reshape(-1, fmt.bytes)


def _number(fmt: Format) -> int:
    assert fmt.ggml is not None  # gguf is asked about ggml's blocks alone
    return fmt.ggml
