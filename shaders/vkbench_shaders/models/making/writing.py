"""Writes GGUF files from front to back: the header first, then each tensor as it is made.

Not by gguf's writer, which knows no q2_0 and opens the file itself, so that a file that was never
finished would have its name already.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from vkbench_shaders.formats import Format
from vkbench_shaders.gguf_file import MAGIC, VERSIONS
from vkbench_shaders.models.making.metadata import Value

ALIGNMENT: Final = 32  # of tensor data, which files do not say that keep to it
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A tensor as the header tells of it."""

    name: str
    shape: tuple[int, ...]  # rows are the last
    format: Format

    @property
    def bytes(self) -> int:
        """Bytes of its numbers."""
        return prod(self.shape) // self.format.elements * self.format.bytes

    @property
    def room(self) -> int:
        """Bytes until the next tensor begins."""
        return -(-self.bytes // ALIGNMENT) * ALIGNMENT


def header(keys: Mapping[str, Value], tensors: Sequence[Placed]) -> bytes:
    """Everything before the first tensor's bytes."""
    parts = [MAGIC, struct.pack("<IQQ", VERSIONS[-1], len(tensors), len(keys))]
    parts += [_string(key) + _value(value) for key, value in keys.items()]
    offset = 0
    for tensor in tensors:
        parts.append(_tensor(tensor, offset))
        offset += tensor.room
    written = b"".join(parts)
    return written + bytes(-len(written) % ALIGNMENT)


def _tensor(tensor: Placed, offset: int) -> bytes:
    inner_first = tensor.shape[::-1]
    assert tensor.format.ggml is not None
    dims = struct.pack(f"<I{len(inner_first)}Q", len(inner_first), *inner_first)
    return _string(tensor.name) + dims + struct.pack("<IQ", tensor.format.ggml, offset)


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", _BOOL, value)
        case int():
            return struct.pack("<II", _UINT32, value)
        case float():
            return struct.pack("<If", _FLOAT32, value)
        case tuple():
            return struct.pack(f"<IIQ{len(value)}I", _ARRAY, _UINT32, len(value), *value)
    return struct.pack("<I", _STRING) + _string(value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
