"""Reflection: what a SPIR-V module needs of a device, and takes from a launch by name."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vkbench_shaders.compile.spirv import (
    LOCAL_SIZE,
    SUBGROUP_SIZE,
    WORKGROUP_SIZE,
    Decoration,
    Instruction,
    MalformedSpirv,
    Op,
    definition,
    read,
)
from vkbench_shaders.launch import Interface, LaunchMismatch, PushField, SpecConstant

_CAPABILITIES: Final = {
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
    5346: "VulkanMemoryModelDeviceScope",
    5347: "PhysicalStorageBufferAddresses",
    6018: "DotProductInput4x8BitPacked",
    6019: "DotProduct",
    6022: "CooperativeMatrixKHR",
}  # others go by their number
_OF_SUBGROUPS: Final = frozenset({"GroupNonUniformShuffle", "CooperativeMatrixKHR"})
_LOGICAL: Final = 0  # how a module addresses memory
_UNIFORM, _PUSH_CONSTANT = 2, 9  # storage classes
_SPECIAL: Final = (Op.SPEC_TRUE, Op.SPEC_FALSE, Op.SPEC_CONSTANT)
_HOLDS: Final = (
    "push constants may hold numbers, and vectors, arrays and structures of them without gaps"
)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a module asks of a device and of a launch."""

    capabilities: tuple[str, ...]
    local_size: tuple[int, int, int] | None  # default workgroup size
    interface: Interface


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a module's code says without names, as the kernels of bundles are."""

    capabilities: tuple[str, ...]
    local_size: tuple[int, int, int] | None
    push: list[tuple[str, int, int]]  # type, count and offset of each push constant
    constants: dict[int, str]  # types of specialisation constants, by their ids
    sized_by: tuple[int | None, ...]  # ids of those that are the workgroup's size along each axis


class Nameless(LaunchMismatch):
    """The SPIR-V lacks the names of its push constants or specialisation constants: stripped."""


def needs(code: bytes) -> Needs:
    """What a module that `portable` made asks for; Nameless where its names were stripped."""
    _, instructions, _ = read(code)
    return Needs(
        capabilities=_capabilities(instructions),
        local_size=_local_size(instructions),
        interface=_interface(instructions),
    )


def form(code: bytes) -> Form:
    """What a module asks for, read from its code alone."""
    _, instructions, _ = read(code)
    places = (
        (ops[0], at)
        for op, ops in instructions
        if op == Op.TYPE_STRUCT
        for at in range(len(ops) - 1)
    )
    types = replace(_Types.of(instructions), names={place: str(place[1]) for place in places})
    push = sorted(_push(instructions, types), key=lambda each: each.offset)
    ids = _constant_ids(instructions)
    sizes = _workgroup_size(instructions) or (0, 0, 0)
    return Form(
        capabilities=_capabilities(instructions),
        local_size=_local_size(instructions),
        push=[(constant.type, constant.count, constant.offset) for constant in push],
        constants={
            ids[ops[1]]: types.scalar(ops[0])
            for op, ops in instructions
            if op in _SPECIAL and ops[1] in ids
        },
        sized_by=tuple(map(ids.get, sizes)),
    )


def counts_on_subgroups(code: bytes) -> bool:
    """Whether a module computes right results only in full subgroups of the size that it reads.

    Such a module reads the size, shuffles numbers between lanes, or uses cooperative matrices.
    """
    _, instructions, _ = read(code)
    asks = any(
        op == Op.DECORATE and ops[1:] == (Decoration.BUILT_IN, SUBGROUP_SIZE)
        for op, ops in instructions
    )
    return asks or not _OF_SUBGROUPS.isdisjoint(_capabilities(instructions))


def follows_addresses(code: bytes) -> bool:
    """Whether a module follows addresses of buffers, whose bounds nothing checks."""
    _, instructions, _ = read(code)
    return any(op == Op.MEMORY_MODEL and ops[0] != _LOGICAL for op, ops in instructions)


def uniform_buffers(code: bytes) -> frozenset[int]:
    """The numbers of the bindings that a module reads as uniform buffers."""
    _, instructions, _ = read(code)
    uniform = {ops[1] for op, ops in instructions if op == Op.VARIABLE and ops[2] == _UNIFORM}
    return frozenset(
        ops[2]
        for op, ops in instructions
        if op == Op.DECORATE and ops[1] == Decoration.BINDING and ops[0] in uniform
    )


def width(code: bytes, constants: Mapping[int, int]) -> int:
    """Threads of a workgroup along x, under specialisation constants by their ids."""
    _, instructions, _ = read(code)
    size = _local_size(instructions)
    if size is None:
        raise MalformedSpirv("the module does not say how large its workgroups are")
    by = {_constant_ids(instructions).get(at, -1) for at in _workgroup_size(instructions)[:1]}
    return next((constants[number] for number in by & constants.keys()), size[0])


def _capabilities(instructions: list[Instruction]) -> tuple[str, ...]:
    capabilities = {ops[0] for op, ops in instructions if op == Op.CAPABILITY}
    return tuple(sorted(_CAPABILITIES.get(number, str(number)) for number in capabilities))


def _interface(instructions: list[Instruction]) -> Interface:
    types = _Types.of(instructions)
    constants, sizes = _constants(instructions, types), _workgroup_size(instructions)
    x, y, z = (constants[at].name if at in constants else "" for at in sizes or (0, 0, 0))
    return Interface(
        push=tuple(sorted(_push(instructions, types), key=lambda each: each.offset)),
        constants=tuple(sorted(dict.fromkeys(constants.values()), key=lambda each: each.id)),
        sized_by=(x, y, z),
    )


def _local_size(instructions: list[Instruction]) -> tuple[int, int, int] | None:
    if sizes := _workgroup_size(instructions):
        x, y, z = (definition(instructions, size)[1][2] for size in sizes)
        return x, y, z
    for op, ops in instructions:
        if op == Op.EXECUTION_MODE and ops[1] == LOCAL_SIZE:
            return ops[2], ops[3], ops[4]
    return None


def _workgroup_size(instructions: list[Instruction]) -> tuple[int, ...]:
    """The constants that are the workgroup's size; none where it is plain numbers."""
    sized = (Decoration.BUILT_IN, WORKGROUP_SIZE)
    marked = [ops[0] for op, ops in instructions if op == Op.DECORATE and ops[1:] == sized]
    composites = (ops for op, ops in instructions if op == Op.SPEC_COMPOSITE and ops[1] in marked)
    return next((ops[2:] for ops in composites), ())


def _constants(instructions: list[Instruction], types: _Types) -> dict[int, SpecConstant]:
    """Specialisation constants by what stands for them in the module."""
    names = {ops[0]: _text(ops[1:]) for op, ops in instructions if op == Op.NAME}
    ids = _constant_ids(instructions)
    return {
        ops[1]: SpecConstant(
            name=_require_name(names.get(ops[1])), id=ids[ops[1]], type=types.scalar(ops[0])
        )
        for op, ops in instructions
        if op in _SPECIAL and ops[1] in ids
    }


def _constant_ids(instructions: list[Instruction]) -> dict[int, int]:
    """Ids of specialisation constants by what stands for them in the module."""
    return {
        ops[0]: ops[2]
        for op, ops in instructions
        if op == Op.DECORATE and ops[1] == Decoration.SPEC_ID
    }


def _push(instructions: list[Instruction], types: _Types) -> Iterator[PushField]:
    """The push constants, of which a module has one block or none."""
    pointers = {ops[0]: ops[2] for op, ops in instructions if op == Op.TYPE_POINTER}
    for op, ops in instructions:
        if op == Op.VARIABLE and ops[2] == _PUSH_CONSTANT:
            yield from types.fields(pointers[ops[0]])


@dataclass(frozen=True, kw_only=True)
class _Types:
    """The types of a module, and where and how the members of its structures lie."""

    defined: dict[int, Instruction]
    offsets: dict[tuple[int, int], int]  # of structures' members
    names: dict[tuple[int, int], str]
    strides: dict[int, int]  # of arrays
    lengths: dict[int, int]  # by the constants that say them
    wrappers: set[int]  # structures in which Slang puts each array by itself

    @staticmethod
    def of(instructions: list[Instruction]) -> _Types:
        members = [ops for op, ops in instructions if op == Op.MEMBER_DECORATE]
        return _Types(
            defined={
                ops[0]: (op, ops)
                for op, ops in instructions
                if Op.TYPE_BOOL <= op <= Op.TYPE_POINTER
            },
            offsets={(ops[0], ops[1]): ops[3] for ops in members if ops[2] == Decoration.OFFSET},
            names={
                (ops[0], ops[1]): _text(ops[2:]) for op, ops in instructions if op == Op.MEMBER_NAME
            },
            strides={
                ops[0]: ops[2]
                for op, ops in instructions
                if op == Op.DECORATE and ops[1] == Decoration.ARRAY_STRIDE
            },
            lengths={ops[1]: ops[2] for op, ops in instructions if op == Op.CONSTANT},
            wrappers={
                ops[0]
                for op, ops in instructions
                if op == Op.NAME and _text(ops[1:]).startswith("_Array_")
            },
        )

    def fields(self, block: int, before: str = "", start: int = 0) -> Iterator[PushField]:
        """What a structure holds, with the members of structures inside it."""
        for at, kind in enumerate(self.defined[block][1][1:]):
            name = before + _require_name(self.names.get((block, at)))
            offset = start + self.offsets[block, at]
            if kind in self.wrappers:
                kind = self.defined[kind][1][1]
            if self.defined[kind][0] == Op.TYPE_STRUCT:
                yield from self.fields(kind, f"{name}.", offset)
            else:
                scalar, count = self._numbers(kind)
                yield PushField(name=name, type=self.scalar(scalar), count=count, offset=offset)

    def scalar(self, kind: int) -> str:
        """A number's type: u32, f32, ..."""
        op, ops = self.defined[kind]
        if op == Op.TYPE_INT:
            return f"{'i' if ops[2] else 'u'}{ops[1]}"
        if op == Op.TYPE_FLOAT:
            return f"f{ops[1]}"
        if op == Op.TYPE_BOOL:
            return "bool"
        raise MalformedSpirv(_HOLDS)

    def _numbers(self, kind: int) -> tuple[int, int]:
        """The type of the numbers of a vector or an array, and how many there are."""
        op, ops = self.defined[kind]
        if op == Op.TYPE_VECTOR:
            return ops[1], ops[2]
        if op == Op.TYPE_ARRAY:
            scalar, count = self._numbers(ops[1])
            if self.strides.get(kind) == count * self.defined[scalar][1][1] // 8:
                return scalar, count * self.lengths[ops[2]]
        if op not in (Op.TYPE_INT, Op.TYPE_FLOAT):
            raise MalformedSpirv(_HOLDS)
        return kind, 1


def _require_name(name: str | None) -> str:
    if not name:
        raise Nameless()
    return name


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode()
