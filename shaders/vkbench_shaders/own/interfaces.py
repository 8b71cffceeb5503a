"""What a variant's code takes from a launch, and what of it a declaration may leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vkbench_shaders.compile import reflection, spirv
from vkbench_shaders.compile.reflection import Needs
from vkbench_shaders.compile.spirv import Decoration, Instruction, Op
from vkbench_shaders.launch import Interface, SpecConstant
from vkbench_shaders.own import uses

_WORDS: Final = ("u32", "i32", "f32", "bool")  # types of constants that a launch can give


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a module asks of a device and of a launch, and what it has where nothing is given."""

    needs: Needs
    defaults: Mapping[str, int]  # of specialisation constants, as 32 bits
    aliases: Mapping[str, str]  # what these may be called too: by their numbers, or a second name
    dropped: frozenset[str]  # constants of the source that an optimiser left out
    unread: frozenset[str]  # push constants that no function reads


def taken_by(code: bytes, named: bytes) -> Taken:
    """What a module takes; its names are those of `named`, where an optimiser left it none."""
    needs, names = reflection.needs(code), _constant_names(named)
    interface = _with_names(needs.interface, reflection.needs(named).interface)
    interface, aliases = _with_one_name_each(interface, names)
    numbers = _defaults(code)
    members = uses.push_members(code)
    return Taken(
        needs=replace(needs, interface=interface),
        defaults={
            member.name: numbers[member.id]
            for member in interface.constants
            if member.type in _WORDS
        },
        aliases=aliases,
        dropped=frozenset(name for several in names.values() for name in several) - aliases.keys(),
        unread=frozenset(
            member.name
            for member in interface.push
            if not members[max(start for start in members if start <= member.offset)]
        ),
    )


def _with_names(interface: Interface, named: Interface) -> Interface:
    constants = {member.id: member.name for member in reversed(named.constants)}
    push = {(member.offset, member.type): member.name for member in named.push}
    called = {member.name: constants.get(member.id, member.name) for member in interface.constants}
    x, y, z = (called.get(name, name) for name in interface.sized_by)
    return replace(
        interface,
        push=tuple(
            replace(member, name=push.get((member.offset, member.type), member.name))
            for member in interface.push
        ),
        constants=tuple(
            replace(member, name=called[member.name]) for member in interface.constants
        ),
        sized_by=(x, y, z),
    )


def _constant_names(code: bytes) -> dict[int, list[str]]:
    """All names of specialisation constants by their numbers: glslang names one after others."""
    _, head, _ = spirv.read(code)
    ids = _constant_ids(head)
    names: dict[int, list[str]] = {}
    for op, ops in head:
        if op == Op.NAME and ops[0] in ids:
            names.setdefault(ids[ops[0]], []).append(spirv.text_of(ops[1:]))
    return names


def _constant_ids(head: Sequence[Instruction]) -> dict[int, int]:
    return {
        ops[0]: ops[2] for op, ops in head if op == Op.DECORATE and ops[1] == Decoration.SPEC_ID
    }


def _with_one_name_each(
    interface: Interface, names: Mapping[int, Sequence[str]]
) -> tuple[Interface, dict[str, str]]:
    """An interface in which a number has one name, and what its constants may be called too.

    glslang declares what sizes the workgroup anew, as u32, where the source has it as an int.
    """
    kept: dict[tuple[int, str], SpecConstant] = {}
    aliases: dict[str, str] = {}
    for constant in interface.constants:
        kind = "u32" if constant.type == "i32" else constant.type
        first = kept.get((constant.id, kind), constant)
        kept[constant.id, kind] = replace(first, type=constant.type)
        called = (constant.name, *names.get(constant.id, ()), str(constant.id))
        aliases |= dict.fromkeys(called, first.name)
    x, y, z = (aliases.get(name, name) for name in interface.sized_by)
    return replace(interface, constants=tuple(kept.values()), sized_by=(x, y, z)), aliases


def _defaults(code: bytes) -> dict[int, int]:
    """The values of specialisation constants, by their numbers, where no launch gives others."""
    _, head, _ = spirv.read(code)
    ids = _constant_ids(head)
    fixed = {Op.SPEC_TRUE: 1, Op.SPEC_FALSE: 0}
    special = (*fixed, Op.SPEC_CONSTANT)
    return {
        ids[ops[1]]: fixed[Op(op)] if op in fixed else ops[2]
        for op, ops in head
        if op in special and ops[1] in ids
    }
