"""The launch of one variant of a user's kernel for a case, on each kind of device."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from vkbench.errors import UsageError
from vkbench.words import names as words
from vkbench_shaders.kernel import Launch
from vkbench_shaders.launch import Interface, LaunchMismatch, pack
from vkbench_shaders.own.declaration import VariantTable
from vkbench_shaders.own.formulas import Formula, Number, names_in, value_of, whole_number
from vkbench_shaders.own.launching import limits
from vkbench_shaders.own.launching.own_launch import LimitedLaunch, OwnLaunch
from vkbench_shaders.own.launching.own_unit import OwnUnit, workgroup
from vkbench_shaders.own.records import (
    MOST_TEXT,
    SUBGROUP,
    SUBGROUPS,
    UnfitDeclaration,
    check_launch,
)
from vkbench_shaders.own.steps.dispatches import MAY_LACK, REST, describe_dispatch

_AXES: Final = "xyz"
_NOWHERE: Final = (1, 1, 1)  # workgroups of what no device launches


def launch_of(
    variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number], case: str
) -> OwnLaunch:
    """The launch of a variant for a case, by its formulas; it fits the variant's code.

    Where these name the size of subgroups, or these have to be full, it has a launch for each size
    for which there is one.
    """
    where = f"{case}, {describe_dispatch(variant.name)}"
    if variant.subgroup_size:
        return _launch_by_limits(where, variant, unit, {SUBGROUP: variant.subgroup_size, **known})
    if not _depends_on_subgroups(variant):
        return _launch_by_limits(where, variant, unit, known)
    launches: dict[int, OwnLaunch] = {}
    refused: UnfitDeclaration | None = None
    for size in SUBGROUPS:
        try:
            names = {SUBGROUP: size, **known}
            launches[size] = _launch_by_limits(where, variant, unit, names)
        except UnfitDeclaration as error:
            refused = error
    if refused and not launches:
        raise refused
    able = (launch for launch in launches.values() if not launch.refusal)
    return replace(next(able, next(iter(launches.values()))), by_subgroup=launches, by_limits=())


def limits_of(variant: VariantTable, known: Mapping[str, Number]) -> list[dict[str, int]]:
    """The least limits that launches of a variant are worked out for; of none if it names none."""
    formulas = _formulas_of(variant)
    named = limits.named_by(formulas, hidden=_names_of_constants(variant))
    return limits.list_steps(named, variant.where, _known_to(variant, known))


def _launch_by_limits(
    where: str, variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number]
) -> OwnLaunch:
    """The launch of a variant, for each choice of the limits that its formulas name."""
    try:
        choices = limits_of(variant, known)
    except UnfitDeclaration as error:
        raise UnfitDeclaration(f"{where}: {error}") from error
    launches: list[LimitedLaunch] = []
    refused: UnfitDeclaration | None = None
    for least in choices:
        try:
            launch = _launch_on(where, variant, unit, {**least, **known})
        except limits.UnmetCondition as unmet:
            launch = _refused_launch(str(unmet))
        except UnfitDeclaration as error:
            refused = error
            launch = _refused_launch(str(error).removeprefix(f"{where}: "))
        launches.append(LimitedLaunch(least=least, launch=launch))
    able = next((one.launch for one in launches if not one.launch.refusal), None)
    if refused and not able:
        raise refused
    joined = limits.join_alike(launches)
    if len(joined) == 1:
        return joined[0].launch
    return replace(able or joined[0].launch, by_limits=joined)


def _refused_launch(reason: str) -> OwnLaunch:
    return OwnLaunch(groups=_NOWHERE, refusal=reason[:MOST_TEXT])


def _depends_on_subgroups(variant: VariantTable) -> bool:
    """Whether what a variant gives a launch depends on how large a device's subgroups are."""
    if variant.full_subgroups:
        return True
    constants = {name.removesuffix(MAY_LACK): value for name, value in variant.constants.items()}
    own = names_in(constants.get(SUBGROUP, SUBGROUP))
    if SUBGROUP not in own:
        return False  # it means the constant
    return any(SUBGROUP in names_in(formula) for formula in _formulas_of(variant))


def _formulas_of(variant: VariantTable) -> Sequence[Formula]:
    """All that a variant's launch follows from."""
    pushed = (one for value in variant.push.values() for one in _formulas(value))
    threads = variant.workgroup or ()
    return *variant.groups, *threads, *variant.constants.values(), *variant.where, *pushed


def _names_of_constants(variant: VariantTable) -> list[str]:
    return [name.removesuffix(MAY_LACK) for name in variant.constants]


def _known_to(variant: VariantTable, known: Mapping[str, Number]) -> dict[str, Number]:
    """What formulas may name beside limits: macros, sizes, and constants that follow from these."""
    names = {**macros_of(variant), **known}
    for name, formula in zip(_names_of_constants(variant), variant.constants.values(), strict=True):
        if names_in(formula) <= names.keys():
            names.setdefault(name, value_of(formula, names))
    return names


def macros_of(variant: VariantTable) -> dict[str, Number]:
    """The macros of a variant that are numbers, which formulas may name."""
    return {n: v for n, v in variant.defines.items() if isinstance(v, int | float)}


def _launch_on(
    where: str, variant: VariantTable, unit: OwnUnit, known: Mapping[str, Number]
) -> OwnLaunch:
    """The launch of a variant by its formulas, which may name what is known."""
    try:
        constants, names = _constants(variant, unit, {**macros_of(variant), **known})
        limits.check_conditions(variant.where, names)
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
    except limits.UnmetCondition:
        raise
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
