"""Which of its bindings a compiled unit touches, and which it may write, by its SPIR-V."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from vkbench_shaders.compile.spirv import Decoration, MalformedSpirv, Op, read

_MEMORY_MODEL, _GROUP_DECORATE = 14, 74
_LOGICAL: Final = 0  # addressing: no buffer is reached but by its binding
_STORAGE_BUFFER: Final = 12  # a storage class


@dataclass(frozen=True, kw_only=True)
class Accesses:
    """Numbers of bindings. The compiler drops those that an entry point has no use for."""

    touched: frozenset[int]
    written: frozenset[int]  # all that are not declared as read-only


@lru_cache(maxsize=4096)
def accesses(code: bytes) -> Accesses | None:
    """What a module touches; None where its code does not tell, as a stranger's may not."""
    try:
        _, instructions, _ = read(code)
        models = [operands[0] for op, operands in instructions if op == _MEMORY_MODEL]
        if models != [_LOGICAL] or any(op == _GROUP_DECORATE for op, _ in instructions):
            return None
        decorations = [operands for op, operands in instructions if op == Op.DECORATE]
        numbers = {ops[0]: ops[2] for ops in decorations if ops[1] == Decoration.BINDING}
        constant = {ops[0] for ops in decorations if ops[1] == Decoration.NON_WRITABLE}
        buffers = [
            operands[1]
            for op, operands in instructions
            if op == Op.VARIABLE and operands[2] == _STORAGE_BUFFER
        ]
        return Accesses(
            touched=frozenset(numbers[buffer] for buffer in buffers),
            written=frozenset(numbers[buffer] for buffer in buffers if buffer not in constant),
        )
    except (MalformedSpirv, LookupError, struct.error):
        return None
