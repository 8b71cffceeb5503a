"""Where a kernel's code has its arrays, by set and number, and where its bundle has them.

A bundle's arrays are bound in their order: the first is number 0 of set 0. So that workers need no
more than that, whoever declares a kernel has its code's numbers changed to these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vkbench_shaders.compile import spirv
from vkbench_shaders.compile.spirv import Decoration, Op
from vkbench_shaders.own.declaration import BindingTable, Place
from vkbench_shaders.own.records import UnfitDeclaration

_DESCRIPTOR_SET: Final = 34
_UNIFORM, _STORAGE_BUFFER = 2, 12  # storage classes
_ARRAYS: Final = (Op.TYPE_ARRAY, 29)  # and OpTypeRuntimeArray
# storage classes, and types of what is no buffer, as people call them
_KINDS: Final[Mapping[int, str]] = {
    _UNIFORM: "a uniform buffer",
    _STORAGE_BUFFER: "a storage buffer",
}
_TYPES: Final[Mapping[int, str]] = {
    26: "a sampler",
    27: "a combined image and sampler",
    5341: "an acceleration structure",
}
_IMAGE, _OF_BUFFERS, _STORAGE_IMAGE = 25, 5, 2  # OpTypeImage, a dimension, what its `sampled` says
_BOUND: Final = (_KINDS[_UNIFORM], _KINDS[_STORAGE_BUFFER])
_NAMELESS: Final = "none by name, as its names were stripped: give the number"
Slot = tuple[int, int]  # set and number
_SLOT: Final = re.compile(r"(\d{1,4}):(\d{1,9})")


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """One variable of a module that is bound."""

    id: int
    slot: Slot
    names: frozenset[str]  # of the block and the variable
    kind: str

    def __str__(self) -> str:
        at = f"binding {self.slot[1]}" + (f" of set {self.slot[0]}" if self.slot[0] else "")
        return f"{at} ({', '.join(sorted(self.names))})" if self.names else at


def buffers_of(code: bytes) -> list[Buffer]:
    """The variables that a module binds, by set and number."""
    _, head, _ = spirv.read(code)
    names = {ops[0]: spirv.text_of(ops[1:]) for op, ops in head if op == Op.NAME}
    types = {ops[0]: ops[2] for op, ops in head if op == Op.TYPE_POINTER}
    arrays = {ops[0]: ops[1] for op, ops in head if op in _ARRAYS}
    structs = {ops[0] for op, ops in head if op == Op.TYPE_STRUCT}
    old = {ops[0] for op, ops in head if op == Op.DECORATE and ops[1] == Decoration.BUFFER_BLOCK}
    numbers = {ops[:2]: ops[2] for op, ops in head if op == Op.DECORATE and len(ops) > 2}
    types_by_number = {ops[0]: (op, ops) for op, ops in head if op in (*_TYPES, _IMAGE)}
    buffers = []
    for op, ops in head:
        if op != Op.VARIABLE or (ops[1], Decoration.BINDING) not in numbers:
            continue
        block = types[ops[0]]
        slot = (numbers.get((ops[1], _DESCRIPTOR_SET), 0), numbers[ops[1], Decoration.BINDING])
        kind = _KINDS.get(ops[2]) or _kind_of(types_by_number.get(arrays.get(block, block)))
        if block not in structs and ops[2] in (_UNIFORM, _STORAGE_BUFFER):
            kind = "an array of buffers"
        if block in old:
            kind = "a storage buffer of SPIR-V before 1.3"
        inner = arrays.get(block, block)
        block_names = frozenset(filter(None, (names.get(inner), names.get(ops[1]))))
        buffers.append(Buffer(id=ops[1], slot=slot, names=block_names, kind=kind))
    return sorted(buffers, key=lambda buffer: buffer.slot)


def _kind_of(instruction: spirv.Instruction | None) -> str:
    """What people call a thing that is bound and is no buffer, by its type."""
    op, ops = instruction or (0, ())
    if op != _IMAGE:
        return _TYPES.get(op, "no buffer")
    kind = "storage" if ops[6] == _STORAGE_IMAGE else "sampled"
    return f"a {kind} {'texel buffer' if ops[2] == _OF_BUFFERS else 'image'}"


def slots_of(bindings: Sequence[BindingTable], named: Sequence[Buffer]) -> dict[Slot, int]:
    """The place among a kernel's arrays of each set and number that the declaration has.

    The buffers, of a module with names, say which numbers those called by name have.
    """
    slots: dict[Slot, int] = {}
    for place, binding in enumerate(bindings):
        for slot in _slots(binding, place, named):
            if slot in slots:
                raise UnfitDeclaration(
                    f"{bindings[slots[slot]].name} and {binding.name} are both binding "
                    f"{slot[1]} of set {slot[0]}"
                )
            slots[slot] = place
    return slots


def put(code: bytes, slots: Mapping[Slot, int], named: Sequence[Buffer], where: str) -> bytes:
    """A module whose buffers have the numbers of a kernel's arrays, all in set 0.

    `where` is what a user writes their numbers in, such as [[bindings]].
    """
    buffers = buffers_of(code)
    names = {buffer.slot: buffer for buffer in named}
    for buffer in buffers:
        known_as = names.get(buffer.slot, buffer)
        if buffer.kind not in _BOUND:
            raise UnfitDeclaration(
                f"{known_as} is {buffer.kind}, and vkbench binds storage and uniform buffers alone"
            )
        if buffer.slot not in slots:
            known = ", ".join(str(number) for _, number in sorted(slots)) or "none"
            kind = f", {buffer.kind}," if buffer.kind == _KINDS[_UNIFORM] else ","
            raise UnfitDeclaration(
                f"the code uses {known_as}{kind} and no {where} has this number: they have {known}"
            )
    numbers = {buffer.id: slots[buffer.slot] for buffer in buffers}
    kinds: dict[int, Buffer] = {}
    for buffer in buffers:
        first = kinds.setdefault(numbers[buffer.id], buffer)
        if first.kind != buffer.kind:
            one, other = (names.get(twin.slot, twin) for twin in (first, buffer))
            raise UnfitDeclaration(
                f"{one} is {first.kind} and {other} is {buffer.kind}: one array cannot be both"
            )
    header, head, body = spirv.read(code)
    return spirv.write(header, [_move(one, numbers) for one in head]) + body


def _slots(binding: BindingTable, place: int, named: Sequence[Buffer]) -> list[Slot]:
    given = place if binding.binding is None else binding.binding
    places: tuple[Place, ...] = given if isinstance(given, tuple) else (given,)
    slots = []
    for name in places:
        if isinstance(name, int):
            slots.append((binding.set, name))
        elif both := _SLOT.fullmatch(name):
            slots.append((int(both[1]), int(both[2])))
        else:
            slots += dict.fromkeys(buffer.slot for buffer in named if name in buffer.names)
    if not slots and not binding.optional:
        known = ", ".join(dict.fromkeys(name for buffer in named for name in sorted(buffer.names)))
        words = " or ".join(map(str, places))
        raise UnfitDeclaration(
            f"the code has no buffer {words} for {binding.name}; it has {known or _NAMELESS}"
        )
    return slots


def _move(instruction: spirv.Instruction, numbers: Mapping[int, int]) -> spirv.Instruction:
    op, ops = instruction
    if op != Op.DECORATE or ops[0] not in numbers:
        return instruction
    if ops[1] == _DESCRIPTOR_SET:
        return op, (*ops[:2], 0)
    return (op, (*ops[:2], numbers[ops[0]])) if ops[1] == Decoration.BINDING else instruction
