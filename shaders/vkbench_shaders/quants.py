"""Numbers to stored blocks and back, by gguf: the CPU's word on what a quantised weight is.

gguf is imported when first needed, so that reading the catalogue stays quick.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Array

_PLAIN = ("f64", "f32", "f16")


def quantise(name: str, values: Array) -> Array:
    """Values (rows, columns) as the storage array of a format."""
    fmt = format_named(name)
    if fmt.name in _PLAIN:
        return values.astype(fmt.dtype)
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    packed = quantize(np.ascontiguousarray(values, np.float32), GGMLQuantizationType(fmt.ggml))
    return np.asarray(packed).view(fmt.dtype)


def dequantise(name: str, stored: Array) -> NDArray[np.float64]:
    """What a storage array stands for, in float64.

    gguf decodes in float32; every value of q4_0 and q8_0 is a half times a small integer, so that
    is exact.
    """
    fmt = format_named(name)
    if fmt.name in _PLAIN:
        return stored.astype(np.float64)
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    blocks = np.ascontiguousarray(stored).view(np.uint8)
    return dequantize(blocks, GGMLQuantizationType(fmt.ggml)).astype(np.float64)
