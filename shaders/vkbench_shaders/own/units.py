"""One variant of a user's kernel: compiled, examined as a worker would, and launched for a case."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench_shaders.bundle import Entry
from vkbench_shaders.compile import compiler, reflection, spirv, validator
from vkbench_shaders.compile.entries import entry_of
from vkbench_shaders.compile.examination import examine
from vkbench_shaders.kernel import Binding, Launch
from vkbench_shaders.launch import Interface, LaunchMismatch, pack
from vkbench_shaders.own import sources
from vkbench_shaders.own.declaration import Declared, VariantTable
from vkbench_shaders.own.formulas import Formula, Number, value_of, whole_number
from vkbench_shaders.own.records import OwnLaunch, UnfitDeclaration

TAKEN_IDS: Final = (98, 99)  # specialisation constants that the runtime sets in vkbench's own code
_AXES: Final = "xyz"
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


@dataclass(frozen=True, kw_only=True)
class OwnUnit:
    """A variant's code, and what it takes from a launch."""

    code: bytes  # without names
    entry: Entry
    interface: Interface
    features: tuple[str, ...]  # of a device: those declared, and those that its capabilities need
    by: str  # the compiler


def unit_of(
    declared: Declared, variant: VariantTable, kernel: str, bindings: Sequence[Binding]
) -> OwnUnit:
    """A variant's code; UnfitDeclaration or UsageError says why no worker would run it."""
    where = f"variant {variant.name}"
    made = sources.compile_source(
        declared.source(variant, sources.MOST_SOURCE_BYTES), variant.entry
    )
    try:
        needs = reflection.needs(made.code)
    except KeyError as error:
        raise UnfitDeclaration(f"{where}: its SPIR-V lacks a definition") from error
    code = spirv.strip_names(made.code)
    unit = compiler.Unit(module=kernel, entry=variant.name)
    entry, interface = entry_of(unit, code, needs, ())
    used = examine(code, entry, interface)
    if complaint := validator.objection(validator.find(settings().cache), code):
        raise UnfitDeclaration(f"{where}: spirv-val refuses {variant.source}: {complaint}")
    _check_bindings(where, used, bindings)
    _check_ids(where, interface)
    needed = {_FEATURES[name] for name in entry.capabilities if name in _FEATURES}
    features = tuple(sorted({*variant.features, *needed}))
    return OwnUnit(code=code, entry=entry, interface=interface, features=features, by=made.by)


def launch_of(
    variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number], case: str
) -> OwnLaunch:
    """The launch of a variant for a case, by its formulas; it fits the variant's code."""
    try:
        constants = {
            name: _constant(unit.interface, name, value_of(formula, known))
            for name, formula in variant.constants.items()
        }
        plain = {n: v for n, v in variant.constants.items() if isinstance(v, int | float)}
        names = {**known, **plain}
        push = {
            name: _push(unit.interface, name, formula, names)
            for name, formula in variant.push.items()
        }
        groups = _three("groups", [whole_number(formula, names) for formula in variant.groups])
        launch = OwnLaunch(groups=groups, push=push, constants=constants)
        given = Launch(groups=groups, push=push, constants=constants)
        pack(given, unit.interface, "the code")
        _check_workgroup(variant, unit, launch)
    except (UnfitDeclaration, UsageError, LaunchMismatch) as error:
        raise UnfitDeclaration(f"{case}, variant {variant.name}: {error}") from error
    return launch


def workgroup(unit: OwnUnit, constants: Mapping[str, int]) -> tuple[int, int, int]:
    """Threads along each axis with these specialisation constants."""
    sizes = zip(unit.interface.sized_by, unit.entry.local_size or (1, 1, 1), strict=True)
    x, y, z = (constants.get(name, size) if name else size for name, size in sizes)
    return x, y, z


def _check_bindings(where: str, used: frozenset[int], bindings: Sequence[Binding]) -> None:
    last = len(bindings) - 1
    if beyond := used.difference(range(len(bindings))):
        raise UnfitDeclaration(
            f"{where}: the code uses binding {min(beyond)}, and the declaration has 0 to {last}"
        )
    for number, binding in enumerate(bindings):
        if binding.access == "out" and number not in used:
            raise UnfitDeclaration(
                f"{where}: the output {binding.name} is binding {number}, "
                f"which the code does not have"
            )


def _check_ids(where: str, interface: Interface) -> None:
    for constant in interface.constants:
        if constant.id in TAKEN_IDS:
            raise UnfitDeclaration(
                f"{where}: the specialisation constant {constant.name} has the number "
                f"{constant.id}, which vkbench's runtime sets; take another"
            )


def _check_workgroup(variant: VariantTable, unit: OwnUnit, launch: OwnLaunch) -> None:
    actual = workgroup(unit, launch.constants)
    if prod(actual) < 1:
        raise UnfitDeclaration(f"its workgroup has {list(actual)} threads")
    if variant.workgroup is None:
        return
    declared_size = _three("workgroup", variant.workgroup)
    if actual != declared_size:
        raise UnfitDeclaration(
            f"the code has workgroups of {list(actual)} threads, "
            f"and workgroup says {list(declared_size)}"
        )


def _three(what: str, sizes: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(sizes) <= len(_AXES):
        raise UnfitDeclaration(f"{what} has {len(sizes)} numbers; give one for each of x, y and z")
    x, y, z = (*sizes, 1, 1)[: len(_AXES)]
    return x, y, z


def _push(
    interface: Interface,
    name: str,
    formula: Formula | Sequence[Formula],
    names: Mapping[str, Number],
) -> tuple[Number, ...]:
    """Numbers of a push constant: whole where it holds integers."""
    types = {numbers.name: numbers.type for numbers in interface.push}
    number = value_of if types.get(name, "")[:1] == "f" else whole_number
    numbers = (formula,) if isinstance(formula, int | float | str) else formula
    return tuple(number(one, names) for one in numbers)


def _constant(interface: Interface, name: str, value: Number) -> int:
    """A specialisation constant as 32 bits; `pack` refuses names that the code does not have."""
    kind = next((constant.type for constant in interface.constants if constant.name == name), "u32")
    try:
        if kind == "f32":
            return int.from_bytes(struct.pack("<f", value), "little")
        if kind in ("u32", "i32") and value == int(value):
            sign = "<i" if value < 0 else "<I"
            return int.from_bytes(struct.pack(sign, int(value)), "little")
        if kind == "bool" and value in (0, 1):
            return int(value)
    except (struct.error, OverflowError) as error:
        raise UnfitDeclaration(f"the constant {name} is {kind}, not {value}") from error
    raise UnfitDeclaration(f"the constant {name} is {kind}, not {value}")
