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
    def dtype(self) -> np.dtype:
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
)  # the shaders' author completes the table

_DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16}


def format_named(name: str) -> Format:
    """A format by name, whatever its case."""
    found = names.pick(name, [fmt.name for fmt in FORMATS], "format")
    return next(fmt for fmt in FORMATS if fmt.name == found)
