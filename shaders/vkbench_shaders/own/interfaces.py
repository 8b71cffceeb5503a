"""What a variant's code takes from a launch, and what of it a declaration may leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from vkbench_shaders.compile import reflection, spirv
from vkbench_shaders.compile.reflection import Needs
from vkbench_shaders.compile.spirv import Decoration, Op
from vkbench_shaders.launch import Interface, SpecConstant
from vkbench_shaders.own import uses

_WORDS: Final = ("u32", "i32", "f32", "bool")  # types of constants that a launch can give


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a module asks of a device and of a launch, and what it has where nothing is given."""

    needs: Needs
    defaults: Mapping[str, int]  # of specialisation constants, as 32 bits
    aliases: Mapping[str, str]  # what these may be called too: by their numbers, or a second name
    unread: frozenset[str]  # push constants that no function reads


def taken_by(code: bytes, named: bytes) -> Taken:
    """What a module takes; its names are those of `named`, where an optimiser left it none."""
    needs = reflection.needs(code)
    interface = _with_names(needs.interface, reflection.needs(named).interface)
    interface, aliases = _with_one_name_each(interface)
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


def _with_one_name_each(interface: Interface) -> tuple[Interface, dict[str, str]]:
    """An interface in which a number has one name, and what its constants may be called too."""
    kept: dict[tuple[int, str], SpecConstant] = {}
    aliases: dict[str, str] = {}
    for constant in interface.constants:
        first = kept.setdefault((constant.id, constant.type), constant)
        aliases |= {constant.name: first.name, str(constant.id): first.name}
    x, y, z = (aliases.get(name, name) for name in interface.sized_by)
    return replace(interface, constants=tuple(kept.values()), sized_by=(x, y, z)), aliases


def _defaults(code: bytes) -> dict[int, int]:
    """The values of specialisation constants, by their numbers, where no launch gives others."""
    _, head, _ = spirv.read(code)
    ids = {ops[0]: ops[2] for op, ops in head if op == Op.DECORATE and ops[1] == Decoration.SPEC_ID}
    fixed = {Op.SPEC_TRUE: 1, Op.SPEC_FALSE: 0}
    special = (*fixed, Op.SPEC_CONSTANT)
    return {
        ids[ops[1]]: fixed[Op(op)] if op in fixed else ops[2]
        for op, ops in head
        if op in special and ops[1] in ids
    }
