"""What the functions of a module use of what it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vkbench_shaders.compile import spirv
from vkbench_shaders.compile.spirv import Decoration, Op

_PUSH_CONSTANT: Final = 9  # a storage class
_CHAINS: Final = (65, 66)  # OpAccessChain, OpInBoundsAccessChain
# what takes a whole variable: OpFunctionCall, OpLoad, OpCopyMemory, OpCopyObject
_WHOLE: Final = (57, 61, 63, 83)


def instructions(words: memoryview[int]) -> Iterator[tuple[int, int, int]]:
    """The opcode of each instruction of functions, and where it begins and ends."""
    at = 0
    while at < len(words):
        end = at + (words[at] >> 16)
        if not at < end <= len(words):
            raise ValueError
        yield words[at] & 0xFFFF, at, end
        at = end


def list_numbers(body: bytes) -> frozenset[int]:
    """All numbers in a module's functions: those of variables that they may use, and others."""
    words = memoryview(body).cast("I")
    return frozenset(
        number for _, at, end in instructions(words) for number in words[at + 1 : end].tolist()
    )


def push_members(code: bytes) -> dict[int, bool]:
    """Where the members of the push constants begin, and whether a function reads each."""
    _, head, body = spirv.read(code)
    pointers = {ops[0]: ops[2] for op, ops in head if op == Op.TYPE_POINTER}
    blocks = {
        ops[1]: pointers[ops[0]]
        for op, ops in head
        if op == Op.VARIABLE and ops[2] == _PUSH_CONSTANT
    }
    offsets = {
        (ops[0], ops[1]): ops[3]
        for op, ops in head
        if op == Op.MEMBER_DECORATE and ops[2] == Decoration.OFFSET
    }
    numbers = {ops[1]: ops[2] for op, ops in head if op == Op.CONSTANT}
    starts = [offset for (kind, _), offset in offsets.items() if kind in blocks.values()]
    read = set()
    words = memoryview(body).cast("I")
    for op, at, end in instructions(words):
        operands = words[at + 1 : end].tolist()
        if op in _CHAINS and operands[2] in blocks:
            read.add(offsets[blocks[operands[2]], numbers[operands[3]]])
        elif op in _WHOLE and not blocks.keys().isdisjoint(operands):
            read.update(starts)
    return {start: start in read for start in starts}
