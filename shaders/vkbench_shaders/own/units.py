"""One variant of a user's kernel: compiled, examined as a worker would, and launched for a case."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from vkbench.settings import settings
from vkbench_shaders.bundle import Entry
from vkbench_shaders.compile import compiler, reflection, spirv, validator
from vkbench_shaders.compile.entries import entry_of
from vkbench_shaders.compile.examination import FOLLOWS_ADDRESSES, examine
from vkbench_shaders.launch import Interface
from vkbench_shaders.own import interfaces, slots, sources
from vkbench_shaders.own.declaration import Declared, VariantTable
from vkbench_shaders.own.launching.own_unit import OwnUnit
from vkbench_shaders.own.records import (
    UnfitDeclaration,
)
from vkbench_shaders.own.slots import Slot
from vkbench_shaders.own.sources import Compiled
from vkbench_shaders.own.steps.dispatches import describe_code

TAKEN_IDS: Final = (98, 99)  # specialisation constants that the runtime sets in vkbench's own code
_AXES: Final = "xyz"
_NOWHERE: Final = (1, 1, 1)  # workgroups of what no device launches
_FEATURES: Final[Mapping[str, str]] = {  # that a module's capabilities ask of a device
    "Float16": "fp16",
    "Float64": "fp64",
    "Int64": "int64",
    "Int8": "int8",
    "GroupNonUniform": "subgroup_basic",
    "GroupNonUniformVote": "subgroup_vote",
    "GroupNonUniformArithmetic": "subgroup_arithmetic",
    "GroupNonUniformShuffle": "subgroup_shuffle",
    "StorageBuffer16BitAccess": "storage16",
    "UniformAndStorageBuffer16BitAccess": "storage16",
    "StorageBuffer8BitAccess": "storage8",
    "UniformAndStorageBuffer8BitAccess": "storage8",
    "BFloat16TypeKHR": "bf16",
    "VulkanMemoryModelDeviceScope": "device_scope",
    "DotProduct": "int_dot",
    "DotProductInput4x8BitPacked": "int_dot",
    "CooperativeMatrixKHR": "coopmat",
}

_OF_UNIFORM: Final[Mapping[str, str]] = {  # where the module has uniform buffers
    "UniformAndStorageBuffer16BitAccess": "uniform16",
    "UniformAndStorageBuffer8BitAccess": "uniform8",
}


def unit_of(
    declared: Declared,
    variant: VariantTable,
    unit: compiler.Unit,
    places: Mapping[Slot, int],
    compiled: dict[str, Compiled],
) -> OwnUnit:
    """A variant's code for a unit, whose buffers are arrays and scratch at these places.

    UnfitDeclaration or UsageError says why no worker would run it.
    """
    where = describe_code(unit.entry, unit.arguments)
    made = compile_dispatch(declared, variant, unit, compiled)
    source = declared.recipe(variant, sources.MOST_SOURCE_BYTES).source.name
    if reflection.follows_addresses(made.code):
        raise UnfitDeclaration(f"{where}: {source}: {FOLLOWS_ADDRESSES}")
    try:
        taken = interfaces.taken_by(made.code, made.named)
        said_in = "[[bindings]]" if variant.bindings is None else "array in its bindings"
        placed = slots.put(made.code, places, made.buffers, said_in)
    except (LookupError, ValueError, struct.error) as error:
        raise UnfitDeclaration(f"{where}: its SPIR-V lacks a definition") from error
    except UnfitDeclaration as error:
        raise UnfitDeclaration(f"{where}: {error}") from error
    code = spirv.strip_names(placed)
    entry, interface = entry_of(unit, code, taken.needs, ())
    used = examine(code, entry, interface)
    if complaint := validator.objection(validator.find(settings().cache), code):
        raise UnfitDeclaration(f"{where}: spirv-val refuses {source}: {complaint}")
    uniform = reflection.uniform_buffers(code)
    _check_ids(where, interface)
    features = tuple(sorted({*variant.features, *_list_features(variant, entry, uniform)}))
    return OwnUnit(
        code=code,
        entry=entry,
        interface=interface,
        features=features,
        by=made.by,
        taken=taken,
        used=used,
        uniform=uniform,
    )


def compile_dispatch(
    declared: Declared, variant: VariantTable, unit: compiler.Unit, compiled: dict[str, Compiled]
) -> Compiled:
    """What a dispatch compiles to; what was compiled the same way is not compiled again."""
    recipe = declared.recipe(variant, sources.MOST_SOURCE_BYTES)
    try:
        made = compiled.get(repr(recipe)) or sources.compile_source(recipe)
    except UnfitDeclaration as error:
        where = describe_code(unit.entry, unit.arguments)
        raise UnfitDeclaration(f"{where}: {error}" if unit.arguments else str(error)) from error
    compiled[repr(recipe)] = made
    return made


def _list_features(variant: VariantTable, entry: Entry, uniform: frozenset[int]) -> Iterator[str]:
    """The features of a device that a variant's code and its subgroups need."""
    known = (_FEATURES, _OF_UNIFORM) if uniform else (_FEATURES,)
    for capability in entry.capabilities:
        yield from (features[capability] for features in known if capability in features)
    if variant.subgroup_size:
        yield "subgroup_size_control"
    if variant.full_subgroups:
        yield "full_subgroups"


def _check_ids(where: str, interface: Interface) -> None:
    for constant in interface.constants:
        if constant.id in TAKEN_IDS:
            raise UnfitDeclaration(
                f"{where}: the specialisation constant {constant.name} has the number "
                f"{constant.id}, which vkbench's runtime sets; take another"
            )
