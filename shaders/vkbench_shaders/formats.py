"""Storage formats: one row each, with GGML's names, block sizes and type numbers.

Everything that generic code asks about a format is in its row: what it is for, whether GPUs write
it, and where its scales lie, so that test blocks can be made for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from vkbench.errors import UsageError
from vkbench.words import names

Array = np.ndarray  # of a format's storage type


@dataclass(frozen=True)
class Scale:
    """A field of a block that its weights are multiplied by, or that is added to them."""

    kind: str  # f16 | f32 | e8m0 | ue4m3 | spread: an f16 in the top nibbles of four 16-bit words
    offset: int  # bytes into the block
    unit: float  # a power of two under which all other bits, at random, decode to weights about 1


@dataclass(frozen=True, kw_only=True)
class Format:
    """How numbers are stored: blocks of `elements` in `bytes`."""

    name: str
    ggml: int | None  # GGML type number, where it has one
    elements: int  # elements a block
    bytes: int  # bytes a block
    use: str  # weights | activations | plain | container
    encoded: bool  # whether kernels quantise to it, those too that store rows of caches
    prepared: bool  # whether the kernel quantize alone makes it: of weights, once
    scales: tuple[Scale, ...]  # empty for a format that holds its numbers as they are
    grid: str  # gguf's class whose table its codes are places in, if they are
    description: str
    # runs of 4 P numbers are stored as P planes of four, number i in plane i % P: where P is not 1,
    # products want bytes of x in that order
    planes: int = 1

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

    def numbers(self, items: int) -> int:
        """Numbers that so many items of its arrays hold."""
        return items // self.bytes * self.elements if self.quantised else items

    @property
    def bits(self) -> float:
        """Bits that a block takes for each element."""
        return self.bytes * 8 / self.elements

    @property
    def ratio(self) -> float:
        """How many times smaller than f32 it is."""
        return 32 / self.bits


def _row(
    name: str,
    ggml: int | None,
    elements: int,
    bytes: int,
    units: Mapping[int, float],
    description: str,
    *,
    kind: str = "f16",
    use: str = "weights",
    encoded: bool = False,
    prepared: bool = False,
    grid: str = "",
    planes: int = 1,
) -> Format:
    return Format(
        name=name,
        ggml=ggml,
        elements=elements,
        bytes=bytes,
        scales=tuple(Scale(kind, offset, unit) for offset, unit in units.items()),
        description=description,
        use=use,
        encoded=encoded,
        prepared=prepared,
        grid=grid,
        planes=planes,
    )


def _plain_row(name: str, ggml: int, bytes: int, description: str) -> Format:
    return _row(name, ggml, 1, bytes, {}, description, use="plain")


def _container_row(name: str, ggml: int | None, bytes: int, description: str) -> Format:
    return _row(name, ggml, 1, bytes, {}, description, use="container")


def _encoded_row(
    name: str,
    ggml: int,
    elements: int,
    bytes: int,
    units: Mapping[int, float],
    description: str,
    planes: int = 1,
) -> Format:
    return _row(name, ggml, elements, bytes, units, description, encoded=True, planes=planes)


# Name, GGML type number, elements and bytes a block, unit of the scale at each offset, description.
FORMATS = (
    _plain_row("f32", 0, 4, "IEEE single"),
    _plain_row("f16", 1, 2, "IEEE half"),
    _plain_row("bf16", 30, 2, "upper half of an IEEE single, rounded to nearest even"),
    _container_row("f64", 28, 8, "IEEE double"),
    _container_row("i8", 24, 1, "signed integers of 8 bits"),
    _container_row("i16", 25, 2, "signed integers of 16 bits"),
    _container_row("i32", 26, 4, "signed integers of 32 bits: indices and positions"),
    _container_row("i64", 27, 8, "signed integers of 64 bits: row numbers"),
    _container_row("u8", None, 1, "unsigned integers of 8 bits: truth values, masks"),
    _container_row("u32", None, 4, "unsigned integers of 32 bits: indices, random bits"),
    _container_row(
        "f8_e4m3", None, 1, "OCP's 8-bit float: 4 bits of exponent, 3 of mantissa, no Inf"
    ),
    _encoded_row("q4_0", 2, 32, 18, {0: 1 / 8}, "f16 scale, 32 nibbles: d * (q - 8)"),
    _encoded_row(
        "q4_1", 3, 32, 20, {0: 1 / 8, 2: 1}, "f16 scale and minimum, 32 nibbles: d * q + m"
    ),
    _encoded_row("q5_0", 6, 32, 22, {0: 1 / 16}, "f16 scale, fifth bits, 32 nibbles: d * (q - 16)"),
    _encoded_row(
        "q5_1", 7, 32, 24, {0: 1 / 16, 2: 1}, "f16 scale and minimum, 5-bit values: d * q + m"
    ),
    _encoded_row("q8_0", 8, 32, 34, {0: 1 / 64}, "f16 scale, 32 signed bytes: d * q"),
    _row(
        "q8_1",
        9,
        32,
        36,
        {0: 1 / 64},
        "f16 scale, f16 d * sum(q), 32 signed bytes; activations only",
        use="activations",
        encoded=True,
    ),
    _row(
        "q2_K",
        10,
        256,
        84,
        {80: 1 / 16, 82: 1 / 16},
        "2-bit values; 4-bit scales, minima per 16",
        prepared=True,
    ),
    _row("q3_K", 11, 256, 110, {108: 1 / 32}, "3-bit values; 6-bit scales per 16", prepared=True),
    _row(
        "q4_K",
        12,
        256,
        144,
        {0: 1 / 256, 2: 1 / 32},
        "nibbles; 6-bit scales, minima per 32",
        prepared=True,
    ),
    _row(
        "q5_K",
        13,
        256,
        176,
        {0: 1 / 512, 2: 1 / 32},
        "5-bit values; 6-bit scales, minima per 32",
        prepared=True,
    ),
    _row("q6_K", 14, 256, 210, {208: 1 / 1024}, "6-bit values; 8-bit scales per 16", prepared=True),
    _row(
        "q8_K",
        15,
        256,
        292,
        {0: 1 / 64},
        "f32 scale, 256 signed bytes, 16 partial sums; activations only",
        kind="f32",
        use="activations",
    ),
    _row(
        "iq1_s",
        19,
        256,
        50,
        {0: 1 / 8},
        "2048 ternary vectors of 8, 3-bit scales, shift of 1/8",
        grid="IQ1_S",
    ),
    _row(
        "iq1_m",
        29,
        256,
        56,
        {48: 1 / 8},
        "as iq1_s, a scale per 16, the f16 spread",
        kind="spread",
        grid="IQ1_S",
    ),
    _row(
        "iq2_xxs",
        16,
        256,
        66,
        {0: 1 / 64},
        "256 vectors of 8, sign indices, 4-bit scales",
        grid="IQ2_XXS",
    ),
    _row(
        "iq2_xs",
        17,
        256,
        74,
        {0: 1 / 64},
        "512 vectors of 8, sign indices, 4-bit scales",
        grid="IQ2_XS",
    ),
    _row(
        "iq2_s",
        22,
        256,
        82,
        {0: 1 / 64},
        "1024 vectors of 8, sign bits, 4-bit scales",
        grid="IQ2_S",
    ),
    _row(
        "iq3_xxs",
        18,
        256,
        98,
        {0: 1 / 128},
        "256 vectors of 4, sign indices, 4-bit scales",
        grid="IQ3_XXS",
    ),
    _row(
        "iq3_s",
        21,
        256,
        110,
        {0: 1 / 128},
        "512 vectors of 4, sign bits, 4-bit scales",
        grid="IQ3_S",
    ),
    _row(
        "iq4_nl",
        20,
        32,
        18,
        {0: 1 / 64},
        "f16 scale, 32 nibbles into a table of 16 values",
        grid="IQ4_NL",
        encoded=True,
    ),
    _row(
        "iq4_xs",
        23,
        256,
        136,
        {0: 1 / 1024},
        "nibbles as iq4_nl's; 6-bit scales per 32",
        grid="IQ4_NL",
        prepared=True,
    ),
    _row("tq1_0", 34, 256, 54, {52: 1}, "ternary, five in a byte, f16 scale", prepared=True),
    _encoded_row("tq2_0", 35, 256, 66, {64: 1}, "ternary, four in a byte, f16 scale"),
    _row(
        "mxfp4",
        39,
        32,
        17,
        {0: 1 / 2},
        "OCP microscaling: E8M0 exponent, 32 E2M1 nibbles",
        kind="e8m0",
        encoded=True,
    ),
    _row(
        "nvfp4",
        40,
        64,
        36,
        {0: 1 / 2, 1: 1 / 2, 2: 1 / 2, 3: 1 / 2},
        "four UE4M3 scales, 64 E2M1 nibbles",
        kind="ue4m3",
        prepared=True,
    ),
    _encoded_row("q1_0", 41, 128, 18, {0: 1}, "f16 scale, 128 sign bits: d or -d", planes=8),
    _encoded_row("q2_0", 42, 64, 18, {0: 1}, "f16 scale, 64 2-bit values: d * (q - 1)", planes=4),
)

QUANTISED = tuple(fmt.name for fmt in FORMATS if fmt.quantised)
WEIGHTS = tuple(fmt.name for fmt in FORMATS if fmt.use == "weights")
PLAIN = tuple(fmt.name for fmt in FORMATS if fmt.use == "plain")
ENCODED = tuple(fmt.name for fmt in FORMATS if fmt.encoded)  # what kernels quantise to
PREPARED = tuple(fmt.name for fmt in FORMATS if fmt.prepared)  # what quantize alone makes

_DTYPES: dict[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u32": np.uint32,
}
_BY_NAME = {fmt.name: fmt for fmt in FORMATS}


def format_named(name: str) -> Format:
    """A format by name, whatever its case."""
    return _BY_NAME.get(name) or _BY_NAME[names.pick(name, _BY_NAME, "format")]


def matrix_shape(
    binding: str, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str]
) -> tuple[int, int]:
    """Rows and logical columns of a matrix's array; UsageError unless its blocks are whole."""
    shape, fmt = shapes[binding], format_named(types[binding])
    if len(shape) != 2:
        raise UsageError(f"{binding} is a matrix: its array has 2 dimensions, not {len(shape)}")
    blocks, rest = divmod(shape[1] * fmt.dtype.itemsize, fmt.bytes)
    if rest:
        raise UsageError(
            f"{binding} has rows of {shape[1]} bytes; {fmt.name} comes in blocks of {fmt.bytes}"
        )
    return shape[0], blocks * fmt.elements
