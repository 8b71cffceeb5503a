"""SPIR-V as words, and two changes that make Slang's output run everywhere.

Slang names itself as source language, which older validators refuse; and it gives a specialised
workgroup size as LocalSizeId, which Vulkan 1.2 has not (1.3 asks for maintenance4). The older form,
a constant decorated as WorkgroupSize, means the same in every version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum

from vkbench.errors import VkbenchError

MAGIC = 0x07230203


class Op(IntEnum):
    """Numbers of the SPIR-V instructions looked for."""

    SOURCE = 3
    NAME = 5
    MEMBER_NAME = 6
    MEMORY_MODEL = 14
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_ARRAY = 28
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    CONSTANT = 43
    SPEC_TRUE = 48
    SPEC_FALSE = 49
    SPEC_CONSTANT = 50
    SPEC_COMPOSITE = 51
    SPEC_OPERATION = 52
    FUNCTION = 54
    VARIABLE = 59
    DECORATE = 71
    MEMBER_DECORATE = 72
    EXECUTION_MODE_ID = 331


class Decoration(IntEnum):
    """What OpDecorate and OpMemberDecorate say."""

    SPEC_ID = 1
    BLOCK = 2
    BUFFER_BLOCK = 3
    ARRAY_STRIDE = 6
    BUILT_IN = 11
    NON_WRITABLE = 24
    BINDING = 33
    OFFSET = 35


LOCAL_SIZE, LOCAL_SIZE_ID = 17, 38  # execution modes
WORKGROUP_SIZE, SUBGROUP_SIZE = 25, 36  # built-ins
Instruction = tuple[int, tuple[int, ...]]  # opcode, operands


class MalformedSpirv(VkbenchError):
    """The compiler's output is not a SPIR-V module."""


def portable(code: bytes) -> bytes:
    """The module without source language, its workgroup size as every Vulkan version takes it."""
    header, instructions, body = read(code)
    kept = [item for item in instructions if item[0] != Op.SOURCE]
    sized = next(
        (ops for op, ops in kept if op == Op.EXECUTION_MODE_ID and ops[1] == LOCAL_SIZE_ID), None
    )
    if sized:
        header, kept = _with_workgroup_size(header, kept, sized[2:])
    return write(header, kept) + body


def strip_names(code: bytes) -> bytes:
    """The module without names, so that renaming a function or a type makes no other kernel."""
    header, instructions, body = read(code)
    return write(header, (i for i in instructions if i[0] not in (Op.NAME, Op.MEMBER_NAME))) + body


def read(code: bytes) -> tuple[tuple[int, ...], list[Instruction], bytes]:
    """Header, instructions before the first function, and all functions as they are."""
    if len(code) < 20 or len(code) % 4 or struct.unpack_from("<I", code)[0] != MAGIC:
        raise MalformedSpirv()
    words = memoryview(code).cast("I")
    at, instructions = 5, []
    while at < len(words) and words[at] & 0xFFFF != Op.FUNCTION:
        length, op = words[at] >> 16, words[at] & 0xFFFF
        if not length or at + length > len(words):
            raise MalformedSpirv()
        instructions.append((op, tuple(words[at + 1 : at + length])))
        at += length
    return tuple(words[:5]), instructions, code[4 * at :]


def write(header: Sequence[int], instructions: Iterable[Instruction]) -> bytes:
    """The words of a header and instructions, as `read` takes them apart."""
    words = list(header)
    for op, operands in instructions:
        words += [(len(operands) + 1) << 16 | op, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def _with_workgroup_size(
    header: Sequence[int], instructions: list[Instruction], sizes: Sequence[int]
) -> tuple[tuple[int, ...], list[Instruction]]:
    uint = next(ops[0] for op, ops in instructions if op == Op.TYPE_INT and ops[1:] == (32, 0))
    uint3 = next(
        ops[0] for op, ops in instructions if op == Op.TYPE_VECTOR and ops[1:] == (uint, 3)
    )
    fresh = header[3]
    parts: list[int] = []
    constants: list[Instruction] = []
    for size in sizes:
        op, ops = definition(instructions, size)
        if op == Op.CONSTANT and ops[0] != uint:  # Slang writes plain sizes as signed
            constants.append((Op.CONSTANT, (uint, fresh, ops[2])))
            size, fresh = fresh, fresh + 1
        parts.append(size)
    constants.append((Op.SPEC_COMPOSITE, (uint3, fresh, *parts)))
    decoration = (Op.DECORATE, (fresh, Decoration.BUILT_IN, WORKGROUP_SIZE))
    kept = [item for item in instructions if item[0] != Op.EXECUTION_MODE_ID]
    first = next(at for at, item in enumerate(kept) if item[0] in (Op.DECORATE, Op.MEMBER_DECORATE))
    changed = [*kept[:first], decoration, *kept[first:], *constants]
    return (*header[:3], fresh + 1, header[4]), changed


def text_of(words: Sequence[int]) -> str:
    """The text at the beginning of some words."""
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode(errors="replace")


def definition(instructions: Iterable[Instruction], number: int) -> Instruction:
    """The constant that stands for a number of the module."""
    constants = (Op.CONSTANT, Op.SPEC_CONSTANT)
    for op, operands in instructions:
        if op in constants and operands[1] == number:
            return op, operands
    raise MalformedSpirv(f"number {number} is no constant")
