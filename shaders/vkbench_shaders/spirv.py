"""SPIR-V as words: what a module needs, and two changes that make Slang's output run everywhere.

Slang names itself as source language, which older validators refuse; and it gives a specialised
workgroup size as LocalSizeId, which Vulkan 1.2 has not (1.3 asks for maintenance4). The older form,
a constant decorated as WorkgroupSize, means the same in every version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vkbench.errors import VkbenchError

MAGIC = 0x07230203
_CAPABILITIES = {
    1: "Shader",
    9: "Float16",
    10: "Float64",
    11: "Int64",
    22: "Int16",
    39: "Int8",
    61: "GroupNonUniform",
    62: "GroupNonUniformVote",
    63: "GroupNonUniformArithmetic",
    64: "GroupNonUniformBallot",
    65: "GroupNonUniformShuffle",
    4433: "StorageBuffer16BitAccess",
    4434: "UniformAndStorageBuffer16BitAccess",
    4448: "StorageBuffer8BitAccess",
    4449: "UniformAndStorageBuffer8BitAccess",
    5116: "BFloat16TypeKHR",
    5118: "BFloat16CooperativeMatrixKHR",
    5345: "VulkanMemoryModel",
    5347: "PhysicalStorageBufferAddresses",
    6018: "DotProductInput4x8BitPacked",
    6019: "DotProduct",
    6022: "CooperativeMatrixKHR",
}  # others go by their number
# opcodes
_SOURCE, _EXECUTION_MODE, _CAPABILITY, _FUNCTION, _VARIABLE = 3, 16, 17, 54, 59
_TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR, _TYPE_STRUCT, _TYPE_POINTER = 21, 22, 23, 30, 32
_CONSTANT, _SPEC_CONSTANT, _SPEC_COMPOSITE = 43, 50, 51
_DECORATE, _MEMBER_DECORATE, _EXECUTION_MODE_ID = 71, 72, 331
# execution modes, decorations, a storage class
_LOCAL_SIZE, _LOCAL_SIZE_ID = 17, 38
_BUILT_IN, _WORKGROUP_SIZE, _OFFSET = 11, 25, 35
_PUSH_CONSTANT = 9

Instruction = tuple[int, tuple[int, ...]]  # opcode, operands


class MalformedSpirv(VkbenchError):
    """The compiler's output is not a SPIR-V module."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a module asks of a device and of a launch."""

    capabilities: tuple[str, ...]
    local_size: tuple[int, int, int] | None  # default workgroup size
    push_bytes: int


def portable(code: bytes) -> bytes:
    """The module without source language, its workgroup size as every Vulkan version takes it."""
    header, instructions, body = _read(code)
    kept = [item for item in instructions if item[0] != _SOURCE]
    sized = next(
        (ops for op, ops in kept if op == _EXECUTION_MODE_ID and ops[1] == _LOCAL_SIZE_ID), None
    )
    if sized:
        header, kept = _with_workgroup_size(header, kept, sized[2:])
    return _write(header, kept) + body


def needs(code: bytes) -> Needs:
    """Capabilities, default workgroup size and push bytes of a module that `portable` made."""
    _, instructions, _ = _read(code)
    found = {ops[0] for op, ops in instructions if op == _CAPABILITY}
    return Needs(
        capabilities=tuple(sorted(_CAPABILITIES.get(number, str(number)) for number in found)),
        local_size=_local_size(instructions),
        push_bytes=_push_bytes(instructions),
    )


def _read(code: bytes) -> tuple[tuple[int, ...], list[Instruction], bytes]:
    """Header, instructions before the first function, functions: nobody here looks into those."""
    if len(code) < 20 or len(code) % 4 or struct.unpack_from("<I", code)[0] != MAGIC:
        raise MalformedSpirv()
    words = memoryview(code).cast("I")
    at, instructions = 5, []
    while at < len(words) and words[at] & 0xFFFF != _FUNCTION:
        length, op = words[at] >> 16, words[at] & 0xFFFF
        if not length or at + length > len(words):
            raise MalformedSpirv()
        instructions.append((op, tuple(words[at + 1 : at + length])))
        at += length
    return tuple(words[:5]), instructions, code[4 * at :]


def _write(header: Sequence[int], instructions: Iterable[Instruction]) -> bytes:
    words = list(header)
    for op, operands in instructions:
        words += [(len(operands) + 1) << 16 | op, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def _with_workgroup_size(
    header: Sequence[int], instructions: list[Instruction], sizes: Sequence[int]
) -> tuple[tuple[int, ...], list[Instruction]]:
    uint = next(ops[0] for op, ops in instructions if op == _TYPE_INT and ops[1:] == (32, 0))
    uint3 = next(ops[0] for op, ops in instructions if op == _TYPE_VECTOR and ops[1:] == (uint, 3))
    fresh = header[3]
    parts: list[int] = []
    constants: list[Instruction] = []
    for size in sizes:
        op, ops = _definition(instructions, size)
        if op == _CONSTANT and ops[0] != uint:  # Slang writes plain sizes as signed
            constants.append((_CONSTANT, (uint, fresh, ops[2])))
            size, fresh = fresh, fresh + 1
        parts.append(size)
    constants.append((_SPEC_COMPOSITE, (uint3, fresh, *parts)))
    decoration = (_DECORATE, (fresh, _BUILT_IN, _WORKGROUP_SIZE))
    kept = [item for item in instructions if item[0] != _EXECUTION_MODE_ID]
    first = next(at for at, item in enumerate(kept) if item[0] in (_DECORATE, _MEMBER_DECORATE))
    changed = [*kept[:first], decoration, *kept[first:], *constants]
    return (*header[:3], fresh + 1, header[4]), changed


def _definition(instructions: Iterable[Instruction], number: int) -> Instruction:
    constants = (_CONSTANT, _SPEC_CONSTANT)
    return next(item for item in instructions if item[0] in constants and item[1][1] == number)


def _local_size(instructions: list[Instruction]) -> tuple[int, int, int] | None:
    sized = (_BUILT_IN, _WORKGROUP_SIZE)
    marked = next(
        (ops[0] for op, ops in instructions if op == _DECORATE and ops[1:] == sized), None
    )
    for op, ops in instructions:
        if op == _SPEC_COMPOSITE and ops[1] == marked:
            x, y, z = (_definition(instructions, part)[1][2] for part in ops[2:])
            return x, y, z
        if op == _EXECUTION_MODE and ops[1] == _LOCAL_SIZE:
            return ops[2], ops[3], ops[4]
    return None


def _push_bytes(instructions: list[Instruction]) -> int:
    defined = {ops[0]: (op, ops) for op, ops in instructions if _TYPE_INT <= op <= _TYPE_POINTER}
    pointer = next(
        (ops[0] for op, ops in instructions if op == _VARIABLE and ops[2] == _PUSH_CONSTANT), None
    )
    if pointer is None:
        return 0
    offsets = {
        (ops[0], ops[1]): ops[3]
        for op, ops in instructions
        if op == _MEMBER_DECORATE and ops[2] == _OFFSET
    }
    return _size(defined, offsets, defined[pointer][1][2])


def _size(defined: dict[int, Instruction], offsets: dict[tuple[int, int], int], number: int) -> int:
    """Bytes of a number, of a vector, or up to the end of a structure."""
    op, ops = defined[number]
    if op in (_TYPE_INT, _TYPE_FLOAT):
        return ops[1] // 8
    if op == _TYPE_VECTOR:
        return ops[2] * _size(defined, offsets, ops[1])
    if op == _TYPE_STRUCT:
        members = enumerate(ops[1:])
        return max(offsets[number, at] + _size(defined, offsets, kind) for at, kind in members)
    raise MalformedSpirv("push constants may hold numbers, vectors and structures of them only")
