"""Storage formats: one row each, with GGML's names, block sizes and type numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from vkbench import names


@dataclass(frozen=True, kw_only=True)
class Format:
    """How numbers are stored: blocks of `elements` in `bytes`."""

    name: str
    ggml: int  # GGML type number
    elements: int  # elements a block
    bytes: int  # bytes a block
    description: str

    @property
    def quantised(self) -> bool:
        """Whether a block holds more than one element."""
        return self.elements > 1

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the arrays that hold it."""
        return np.dtype(_DTYPES.get(self.name, np.uint8))

    def items(self, elements: int) -> int:
        """Array items of a row of `elements`: bytes for quantised formats, elements otherwise."""
        return ceil(elements / self.elements) * self.bytes // self.dtype.itemsize

    @property
    def bits(self) -> float:
        """Bits an element."""
        return self.bytes * 8 / self.elements


def _row(name: str, ggml: int, elements: int, bytes: int, description: str) -> Format:
    return Format(name=name, ggml=ggml, elements=elements, bytes=bytes, description=description)


FORMATS = (
    _row("f32", 0, 1, 4, "IEEE single"),
    _row("f16", 1, 1, 2, "IEEE half"),
    _row("bf16", 30, 1, 2, "upper half of an IEEE single, rounded to nearest even"),
    _row("f64", 28, 1, 8, "IEEE double; a container only"),
    _row("i8", 24, 1, 1, "signed integers of 8 bits; a container only"),
    _row("i16", 25, 1, 2, "signed integers of 16 bits; a container only"),
    _row("i32", 26, 1, 4, "signed integers of 32 bits: indices and positions"),
    _row("i64", 27, 1, 8, "signed integers of 64 bits; a container only"),
    _row("q4_0", 2, 32, 18, "f16 scale, 32 nibbles: d * (q - 8)"),
    _row("q4_1", 3, 32, 20, "f16 scale and minimum, 32 nibbles: d * q + m"),
    _row("q5_0", 6, 32, 22, "f16 scale, fifth bits, 32 nibbles: d * (q - 16)"),
    _row("q5_1", 7, 32, 24, "f16 scale and minimum, fifth bits, 32 nibbles: d * q + m"),
    _row("q8_0", 8, 32, 34, "f16 scale, 32 signed bytes: d * q"),
    _row("q8_1", 9, 32, 36, "f16 scale, f16 d * sum(q), 32 signed bytes; activations only"),
    _row("q2_K", 10, 256, 84, "16 sub-blocks of 2-bit values with 4-bit scales and minima"),
    _row("q3_K", 11, 256, 110, "16 sub-blocks of 3-bit values with 6-bit scales"),
    _row("q4_K", 12, 256, 144, "8 sub-blocks of nibbles with 6-bit scales and minima"),
    _row("q5_K", 13, 256, 176, "8 sub-blocks of 5-bit values with 6-bit scales and minima"),
    _row("q6_K", 14, 256, 210, "16 sub-blocks of 6-bit values with 8-bit scales"),
    _row("q8_K", 15, 256, 292, "f32 scale, 256 signed bytes, 16 partial sums; activations only"),
    _row("iq1_s", 19, 256, 50, "grid of 2048 ternary vectors of 8, 3-bit scales, a shift of 1/8"),
    _row("iq1_m", 29, 256, 56, "as iq1_s, scales finer and the block's own spread over them"),
    _row("iq2_xxs", 16, 256, 66, "grid of 256 vectors of 8, sign indices, 4-bit scales"),
    _row("iq2_xs", 17, 256, 74, "grid of 512 vectors of 8, sign indices, 4-bit scales"),
    _row("iq2_s", 22, 256, 82, "grid of 1024 vectors of 8, sign bits, 4-bit scales"),
    _row("iq3_xxs", 18, 256, 98, "grid of 256 vectors of 4, sign indices, 4-bit scales"),
    _row("iq3_s", 21, 256, 110, "grid of 512 vectors of 4, sign bits, 4-bit scales"),
    _row("iq4_nl", 20, 32, 18, "f16 scale, 32 nibbles into a table of 16 values"),
    _row("iq4_xs", 23, 256, 136, "8 sub-blocks of nibbles into iq4_nl's table, 6-bit scales"),
    _row("tq1_0", 34, 256, 54, "ternary, five in a byte, f16 scale"),
    _row("tq2_0", 35, 256, 66, "ternary, four in a byte, f16 scale"),
    _row("mxfp4", 39, 32, 17, "OCP microscaling: E8M0 exponent, 32 E2M1 nibbles"),
    _row("nvfp4", 40, 64, 36, "four UE4M3 scales, 64 E2M1 nibbles"),
    _row("q1_0", 41, 128, 18, "f16 scale, 128 sign bits: d or -d"),
    _row("q2_0", 42, 64, 18, "f16 scale, 64 2-bit values: d * (q - 1)"),
)

_DTYPES: dict[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
_BY_NAME = {fmt.name: fmt for fmt in FORMATS}


def format_named(name: str) -> Format:
    """A format by name, whatever its case."""
    return _BY_NAME.get(name) or _BY_NAME[names.pick(name, _BY_NAME, "format")]
