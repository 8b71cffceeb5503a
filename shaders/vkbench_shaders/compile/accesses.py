"""Which of its bindings a compiled unit touches, and which it may write, by its SPIR-V."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from vkbench_shaders.compile.spirv import (
    Decoration,
    Instruction,
    MalformedSpirv,
    Op,
    instructions_of,
    read,
)

_MEMORY_MODEL, _GROUP_DECORATE = 14, 74
_LOGICAL: Final = 0  # addressing: no buffer is reached but by its binding
_STORAGE_BUFFER: Final = 12  # a storage class
_PLACES: Final = (65, 66, 67, 70, 83)  # that lie in another's buffer: OpAccessChain and the like
# Instructions that may write where a pointer leads, and from which operand on they have such ones:
# stores, copies and atomics. What is passed to a function, or chosen from, may be written there.
_WRITES: Final = {62: 0, 63: 0, 64: 0, 228: 0, **dict.fromkeys(range(229, 243), 2)}
_PASSED: Final = {57: 3, 169: 3, 245: 2}
_CORE: Final = 400  # beyond are instructions of extensions: they may write, but for those that load
_LOADS: Final = (4457,)  # OpCooperativeMatrixLoadKHR


@dataclass(frozen=True, kw_only=True)
class Accesses:
    """Numbers of bindings. The compiler drops those that an entry point has no use for."""

    touched: frozenset[int]
    written: frozenset[int]  # all that are not declared as read-only, nor seen to be only read


@lru_cache(maxsize=4096)
def accesses(code: bytes) -> Accesses | None:
    """What a module touches; None where its code does not tell, as a stranger's may not."""
    try:
        _, instructions, functions = read(code)
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
        written = _written(instructions_of(functions)) - constant
        return Accesses(
            touched=frozenset(numbers[each] for each in buffers),
            written=frozenset(numbers[each] for each in buffers if each in written),
        )
    except (MalformedSpirv, LookupError, struct.error):
        return None


def _written(instructions: Iterable[Instruction]) -> set[int]:
    """Variables that some instruction may write, by whatever pointer."""
    bases: dict[int, int] = {}  # what lies in which variable
    found = set()
    for op, operands in instructions:
        if op in _PLACES:
            bases[operands[1]] = bases.get(operands[2], operands[2])
        elif op in _WRITES:
            pointer = operands[_WRITES[op]]
            found.add(bases.get(pointer, pointer))
        elif op in _PASSED or (op > _CORE and op not in _LOADS):
            passed = operands[_PASSED.get(op, 0) :]
            found |= {bases.get(pointer, pointer) for pointer in passed}
    return found
