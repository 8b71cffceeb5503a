"""One variant of a user's kernel: compiled, examined as a worker would, and launched for a case."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench.words import names as words
from vkbench_shaders.bundle import Entry
from vkbench_shaders.compile import compiler, reflection, spirv, validator
from vkbench_shaders.compile.entries import entry_of
from vkbench_shaders.compile.examination import FOLLOWS_ADDRESSES, examine
from vkbench_shaders.kernel import Launch
from vkbench_shaders.launch import Interface, LaunchMismatch, pack
from vkbench_shaders.own import interfaces, slots, sources
from vkbench_shaders.own.declaration import Declared, VariantTable
from vkbench_shaders.own.formulas import Formula, Number, names_in, value_of, whole_number
from vkbench_shaders.own.interfaces import Taken
from vkbench_shaders.own.records import (
    SUBGROUP,
    SUBGROUPS,
    OwnLaunch,
    UnfitDeclaration,
    check_launch,
)
from vkbench_shaders.own.slots import Slot
from vkbench_shaders.own.sources import Compiled
from vkbench_shaders.own.steps.dispatches import MAY_LACK, REST, describe_code, describe_dispatch

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

_OF_UNIFORM: Final[Mapping[str, str]] = {  # where the module has uniform buffers
    "UniformAndStorageBuffer16BitAccess": "uniform16",
    "UniformAndStorageBuffer8BitAccess": "uniform8",
}


@dataclass(frozen=True, kw_only=True)
class OwnUnit:
    """A variant's code, and what it takes from a launch."""

    code: bytes  # without names
    entry: Entry
    interface: Interface
    features: tuple[str, ...]  # of a device: those declared, and those that its capabilities need
    by: str  # the compiler
    taken: Taken
    used: frozenset[int]  # numbers of the arrays, and behind them scratch, that it has
    uniform: frozenset[int]  # those of them that it reads as uniform buffers


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


def launch_of(
    variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number], case: str
) -> OwnLaunch:
    """The launch of a variant for a case, by its formulas; it fits the variant's code.

    Where these name the size of subgroups, or these have to be full, it has a launch for each size
    for which there is one.
    """
    where = f"{case}, {describe_dispatch(variant.name)}"
    if variant.subgroup_size:
        return _launch_on(where, variant, unit, {SUBGROUP: variant.subgroup_size, **known})
    if not _depends_on_subgroups(variant):
        return _launch_on(where, variant, unit, known)
    launches: dict[int, OwnLaunch] = {}
    refused: UnfitDeclaration | None = None
    for size in SUBGROUPS:
        try:
            launches[size] = _launch_on(where, variant, unit, {SUBGROUP: size, **known})
        except UnfitDeclaration as error:
            refused = error
    if refused and not launches:
        raise refused
    return replace(next(iter(launches.values())), by_subgroup=launches)


def _depends_on_subgroups(variant: VariantTable) -> bool:
    """Whether what a variant gives a launch depends on how large a device's subgroups are."""
    if variant.full_subgroups:
        return True
    constants = {name.removesuffix(MAY_LACK): value for name, value in variant.constants.items()}
    own = names_in(constants.get(SUBGROUP, SUBGROUP))
    if SUBGROUP not in own:
        return False  # it means the constant
    pushed = (one for value in variant.push.values() for one in _formulas(value))
    formulas = (*variant.groups, *(variant.workgroup or ()), *variant.constants.values(), *pushed)
    return any(SUBGROUP in names_in(formula) for formula in formulas)


def _launch_on(
    where: str, variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number]
) -> OwnLaunch:
    """The launch of a variant by its formulas, which may name what is known."""
    macros = {n: v for n, v in variant.defines.items() if isinstance(v, int | float)}
    try:
        constants, names = _constants(variant, unit, {**macros, **known})
        push = _pushes(variant, unit, names)
        groups = _three("groups", [whole_number(formula, names) for formula in variant.groups])
        launch = OwnLaunch(
            groups=groups,
            push=push,
            constants=constants,
            subgroup_size=variant.subgroup_size,
            full_subgroups=variant.full_subgroups,
        )
        given = Launch(groups=groups, push=push, constants=constants)
        pack(given, unit.interface, "the code")
        _check_workgroup(variant, unit, launch, names)
    except (UnfitDeclaration, UsageError, LaunchMismatch) as error:
        raise UnfitDeclaration(f"{where}: {error}") from error
    check_launch(where, launch)
    return launch


def _pushes(
    variant: VariantTable, unit: OwnUnit, names: Mapping[str, Number]
) -> dict[str, tuple[Number, ...]]:
    """The push constants by name: 0 for what no function reads, and "*" for what is not named."""
    members = {member.name: member for member in unit.interface.push}
    short = Counter(name.rpartition(".")[2] for name in members)
    whole = {name.rpartition(".")[2]: name for name in members}
    rest = variant.push.get(REST)
    push = {}
    for name, member in members.items():
        value = 0 if name in unit.taken.unread else rest
        if value is not None:
            push[name] = tuple(_push(unit.interface, name, value, names)) * member.count
    for written, formula in variant.push.items():
        called = written.removesuffix(MAY_LACK)
        name = whole[called] if called not in members and short[called] == 1 else called
        if written == REST or (name not in members and called != written):
            continue
        name = _pick(name, members, "push constant")
        push[name] = _push(unit.interface, name, formula, names)
    if lacking := [
        f"{name} ({member.type})" for name, member in members.items() if name not in push
    ]:
        raise UnfitDeclaration(f"push does not give what the code reads: {', '.join(lacking)}")
    return push


def workgroup(unit: OwnUnit, constants: Mapping[str, int]) -> tuple[int, int, int]:
    """Threads along each axis with these specialisation constants."""
    sizes = zip(unit.interface.sized_by, unit.entry.local_size or (1, 1, 1), strict=True)
    x, y, z = (constants.get(name, size) if name else size for name, size in sizes)
    return x, y, z


def _check_ids(where: str, interface: Interface) -> None:
    for constant in interface.constants:
        if constant.id in TAKEN_IDS:
            raise UnfitDeclaration(
                f"{where}: the specialisation constant {constant.name} has the number "
                f"{constant.id}, which vkbench's runtime sets; take another"
            )


def _check_workgroup(
    variant: VariantTable, unit: OwnUnit, launch: OwnLaunch, names: Mapping[str, Number]
) -> None:
    actual = workgroup(unit, launch.constants)
    if prod(actual) < 1:
        raise UnfitDeclaration(f"its workgroup has {list(actual)} threads")
    if variant.full_subgroups and actual[0] % int(names[SUBGROUP]):
        raise UnfitDeclaration(
            f"full_subgroups: a workgroup has {actual[0]} threads along x, which fill no "
            f"subgroups of {names[SUBGROUP]}"
        )
    if variant.workgroup is None:
        return
    sizes = [whole_number(formula, names) for formula in variant.workgroup]
    declared_size = _three("workgroup", sizes)
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
    return tuple(number(one, names) for one in _formulas(formula))


def _formulas(value: Formula | Sequence[Formula]) -> Sequence[Formula]:
    return (value,) if isinstance(value, int | float | str) else value


def _constants(
    variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number]
) -> tuple[dict[str, int], dict[str, Number]]:
    """The specialisation constants by name, and the numbers that other formulas may name."""
    names = dict(known)
    given: dict[str, int] = {}
    for written, formula in variant.constants.items():
        called = written.removesuffix(MAY_LACK)
        value = value_of(formula, known)
        if names.setdefault(called, value) != value:
            raise UnfitDeclaration(
                f"the constant {called} is {value}, and formulas mean the size or parameter "
                f"{called} by this name, which is {names[called]}: give the constant by its number"
            )
        may_lack = written != called or called in unit.taken.dropped
        if may_lack and called not in unit.taken.aliases:
            continue
        aliases = unit.taken.aliases
        name = aliases[_pick(called, aliases, "specialisation constant")]
        if name in given:
            raise UnfitDeclaration(f"the constant {name} is given twice, as {called} too")
        given[name] = _constant(unit.interface, name, value)
    return {**unit.taken.defaults, **given}, names


def _pick(called: str, known: Collection[str], what: str) -> str:
    """What the code has of this name; UnfitDeclaration or UnknownName if it has none."""
    if called not in known and known and all(name.replace(".", "").isdigit() for name in known):
        raise UnfitDeclaration(
            f"the code calls no {what} by name, as its names were stripped: call {called} by its "
            f"number, of {', '.join(sorted(known))}"
        )
    return words.pick(called, known, f"{what} of the code")


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
