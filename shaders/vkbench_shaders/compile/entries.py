"""What a manifest says of a compiled unit."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

from vkbench_shaders.bundle import Entry, interface_name
from vkbench_shaders.compile.compiler import CompileError, Unit
from vkbench_shaders.compile.reflection import Needs
from vkbench_shaders.launch import Interface


def entry_of(
    unit: Unit, code: bytes, needs: Needs, declared: Collection[str]
) -> tuple[Entry, Interface]:
    """What a manifest says of a unit, whose sources declare these specialisation constants."""
    _refuse_shared_numbers(unit, needs.interface)
    kept = {constant.name for constant in needs.interface.constants}
    interface = replace(needs.interface, dropped=tuple(sorted(set(declared) - kept)))
    entry = Entry(
        key=unit.key,
        module=unit.module,
        entry=unit.entry,
        arguments=unit.arguments,
        sha256=hashlib.sha256(code).hexdigest(),
        bytes=len(code),
        local_size=needs.local_size,
        capabilities=needs.capabilities,
        interface=interface_name(interface),
    )
    return entry, interface


def _refuse_shared_numbers(unit: Unit, interface: Interface) -> None:
    """A launch gives constants by name, and Vulkan sets all that have the number."""
    for one, other in pairwise(interface.constants):
        if one.id == other.id:
            raise CompileError(
                f"{unit.key}: the specialisation constants {one.name} and {other.name} "
                f"have one number, {one.id}"
            )
