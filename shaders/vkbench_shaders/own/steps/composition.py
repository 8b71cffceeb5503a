"""One variant of a user's kernel as it is launched: its dispatches, and the scratch they share."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

from vkbench.words import names as words
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Binding
from vkbench_shaders.own import slots, units
from vkbench_shaders.own.declaration import (
    Declaration,
    Declared,
    ScratchTable,
    VariantTable,
)
from vkbench_shaders.own.formulas import Number, holds, value_of, whole_number
from vkbench_shaders.own.launching import launches
from vkbench_shaders.own.launching.own_launch import OwnLaunch
from vkbench_shaders.own.launching.own_unit import OwnUnit
from vkbench_shaders.own.matrix import FormatChoice
from vkbench_shaders.own.records import (
    SUBGROUP,
    SUBGROUPS,
    WORD_BYTES,
    OwnKernel,
    UnfitDeclaration,
)
from vkbench_shaders.own.sources import Compiled
from vkbench_shaders.own.steps.dispatches import (
    MAY_LACK,
    REST,
    describe_code,
    describe_dispatch,
    list_dispatches,
)
from vkbench_shaders.own.steps.places import list_places


@dataclass(frozen=True, kw_only=True)
class Composition:
    """A variant's dispatches with their code, in order, for some formats."""

    variant: VariantTable
    dispatches: Sequence[VariantTable]
    units: Sequence[OwnUnit]
    scratch: Sequence[ScratchTable]  # that its code has; the one that is zero comes last

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that the code is for, as `codes_of` a kernel has them."""
        return self.units[0].entry.arguments

    @property
    def features(self) -> tuple[str, ...]:
        """What a device has to have for all dispatches."""
        return tuple(sorted({name for unit in self.units for name in unit.features}))

    @property
    def names(self) -> tuple[str, ...]:
        """The scratch that begins in no known state, by name."""
        return tuple(table.name for table in self.scratch if not table.zero)

    @property
    def counters(self) -> str:
        """The name of the scratch that is zero before and after each launch; "": none is."""
        return next((table.name for table in self.scratch if table.zero), "")


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A dispatch that is compiled, and where it has arrays and scratch."""

    dispatch: VariantTable
    unit: Unit
    places: Mapping[slots.Slot, int]  # among the arrays and all scratch, by set and number


def compose(
    declared: Declared,
    variant: VariantTable,
    head: OwnKernel,
    bindings: Sequence[Binding],
    compiled: dict[str, Compiled],
) -> list[Composition]:
    """A variant's dispatches for each combination of formats, all with the same scratch.

    UnfitDeclaration says why no worker would run them. What was compiled the same way for another
    variant is not compiled again.
    """
    known = sorted(declared.table.scratch, key=lambda table: table.zero)
    drafts = []
    for choice in declared.choices:
        code = declared.code(variant, choice)
        placed = [
            _place(declared, dispatch, _unit(head, dispatch.name, choice), bindings, compiled)
            for dispatch in list_dispatches(code)
        ]
        drafts.append((code, placed))
    used = {place for _, placed in drafts for step in placed for place in step.places.values()}
    scratch = [table for place, table in enumerate(known, len(bindings)) if place in used]
    numbers = _renumber(known, scratch, len(bindings))
    composed = []
    for code, placed in drafts:
        made = [
            units.unit_of(
                declared,
                step.dispatch,
                step.unit,
                {slot: numbers[place] for slot, place in step.places.items()},
                compiled,
            )
            for step in placed
        ]
        dispatches = [step.dispatch for step in placed]
        _check_outputs(code, made, bindings)
        if code.steps:
            _check_steps(dispatches, made)
            _check_placed(declared, code, bindings, placed)
            _check_shared(code, made)
        composed.append(
            Composition(variant=code, dispatches=dispatches, units=made, scratch=scratch)
        )
    return composed


def launches_of(
    composition: Composition, known: Mapping[str, Number], case: str
) -> OwnLaunch | tuple[OwnLaunch, ...]:
    """The launch of a variant for a case, by its formulas; one for each step, where it has some."""
    made = tuple(
        launches.launch_of(dispatch, unit, known, case)
        for dispatch, unit in zip(composition.dispatches, composition.units, strict=True)
    )
    return made if composition.variant.steps or composition.scratch else made[0]


def sizes_of(composition: Composition, known: Mapping[str, Number], case: str) -> tuple[int, ...]:
    """Bytes of each scratch of a variant for a case.

    Where these depend on how large subgroups are, they are enough for any that devices have.
    """
    variant = composition.variant
    if not composition.scratch:
        return ()
    sizes = [variant.subgroup_size] if variant.subgroup_size else SUBGROUPS
    found: list[tuple[int, ...]] = []
    refused: UnfitDeclaration | None = None
    for size in sizes:
        try:
            for least in launches.limits_of(variant, {SUBGROUP: size, **known}):
                names = _names_on(variant, size, {**least, **known})
                if all(holds(condition, names) for condition in variant.where):
                    found.append(tuple(_bytes_of(table, names) for table in composition.scratch))
        except UnfitDeclaration as error:
            refused = error
    if refused and not found:
        raise UnfitDeclaration(f"{case}, {describe_dispatch(variant.name)}: {refused}") from refused
    unused = (WORD_BYTES,) * len(composition.scratch)  # where no device is to run the variant
    return tuple(map(max, zip(*found, strict=True))) or unused


def check_scratch(table: Declaration, arrays: AbstractSet[str]) -> None:
    """Raise UnfitDeclaration unless each scratch has a size and a place, and one may be zero."""
    bound = {
        name.removesuffix(MAY_LACK)
        for variant in table.variants
        for dispatch in list_dispatches(variant)
        for name in dispatch.bindings or ()
    }
    for scratch in table.scratch:
        name = scratch.name
        if name in arrays:
            raise UnfitDeclaration(f"the scratch {name} is named as a binding is")
        if (scratch.bytes is None) != bool(scratch.format and scratch.dims):
            raise UnfitDeclaration(f"the scratch {name} needs format and dims, or bytes")
        if scratch.binding is None and name not in bound:
            raise UnfitDeclaration(
                f"nothing says where the code has the scratch {name}: give binding = in its table, "
                "or name it in the bindings = of a step"
            )
    if len(zero := [scratch.name for scratch in table.scratch if scratch.zero]) > 1:
        raise UnfitDeclaration(f"one scratch may be zero, and {' and '.join(zero)} are")


def _names_on(
    variant: VariantTable, subgroup: int, known: Mapping[str, Number]
) -> dict[str, Number]:
    """What formulas of scratch may name, where subgroups have so many threads."""
    macros = launches.macros_of(variant)
    names: dict[str, Number] = {**macros, **known}
    for name, formula in variant.constants.items():
        value = value_of(formula, {SUBGROUP: subgroup, **macros, **known})
        names.setdefault(name.removesuffix(MAY_LACK), value)
    return {SUBGROUP: subgroup, **names}


def _place(
    declared: Declared,
    dispatch: VariantTable,
    unit: Unit,
    bindings: Sequence[Binding],
    compiled: dict[str, Compiled],
) -> _Placed:
    """A dispatch with its places among the arrays and the scratch; of scratch, if it is used."""
    scratch = sorted(declared.table.scratch, key=lambda table: table.zero)
    made = units.compile_dispatch(declared, dispatch, unit, compiled)
    tables = list_places(declared, dispatch, bindings, scratch)
    where = describe_code(unit.entry, unit.arguments)
    try:
        by_slot = slots.slots_of(tables, made.buffers)
        used = {buffer.slot for buffer in slots.buffers_of(made.code)}
    except (LookupError, ValueError, struct.error) as error:
        raise UnfitDeclaration(f"{where}: its SPIR-V lacks a definition") from error
    except UnfitDeclaration as error:
        raise UnfitDeclaration(f"{where}: {error}") from error
    arrays = range(len(bindings))
    places = {slot: place for slot, place in by_slot.items() if place in arrays or slot in used}
    return _Placed(dispatch=dispatch, unit=unit, places=places)


def _unit(head: OwnKernel, entry: str, choice: FormatChoice) -> Unit:
    return Unit(module=head.name, entry=entry, arguments=head.codes_of(choice.formats))


def _renumber(
    known: Sequence[ScratchTable], kept: Sequence[ScratchTable], arrays: int
) -> dict[int, int]:
    """The numbers of arrays, as they are, and of the scratch that is kept, behind them."""
    numbers = {number: number for number in range(arrays)}
    return numbers | {
        arrays + known.index(table): number for number, table in enumerate(kept, arrays)
    }


def _check_outputs(
    variant: VariantTable, made: Sequence[OwnUnit], bindings: Sequence[Binding]
) -> None:
    used = frozenset[int]().union(*(unit.used for unit in made))
    written = frozenset[int]().union(*(unit.used - unit.uniform for unit in made))
    who = "no step has" if variant.steps else "the code does not have"
    where = describe_code(variant.name, made[0].entry.arguments)
    for number, binding in enumerate(bindings):
        if binding.access == "out" and number not in used:
            raise UnfitDeclaration(
                f"{where}: the output {binding.name} is binding {number}, which {who}"
            )
        if binding.is_output and number in used - written:
            raise UnfitDeclaration(
                f"{where}: {binding.name} is a uniform buffer, which no code writes to: "
                'say access = "in"'
            )


def _check_steps(dispatches: Sequence[VariantTable], made: Sequence[OwnUnit]) -> None:
    for dispatch, unit in zip(dispatches, made, strict=True):
        if not unit.used:
            raise UnfitDeclaration(
                f"{describe_dispatch(dispatch.name)}: its code uses no array and no scratch"
            )


def _check_placed(
    declared: Declared,
    variant: VariantTable,
    bindings: Sequence[Binding],
    steps: Sequence[_Placed],
) -> None:
    """Raise UnfitDeclaration for an array that no step has, neither by name nor by number."""
    placed = {place for step in steps for place in step.places.values()}
    optional = {table.name for table in declared.table.bindings if table.optional}
    for number, binding in enumerate(bindings):
        if number not in placed and binding.name not in optional:
            raise UnfitDeclaration(f"variant {variant.name}: no step binds {binding.name}")


def _check_shared(variant: VariantTable, made: Sequence[OwnUnit]) -> None:
    """Raise UnfitDeclaration for what a variant gives to all steps and the code of none has."""
    constants = dict.fromkeys(
        name for unit in made for name in (*unit.taken.aliases, *unit.taken.dropped)
    )
    for name in variant.constants:
        if not name.endswith(MAY_LACK):
            words.pick(name, constants, "specialisation constant of the steps")
    members = [member.name for unit in made for member in unit.interface.push]
    known = dict.fromkeys([*members, *(name.rpartition(".")[2] for name in members)])
    for name in variant.push:
        if name != REST and not name.endswith(MAY_LACK):
            words.pick(name, known, "push constant of the steps")


def _bytes_of(table: ScratchTable, names: Mapping[str, Number]) -> int:
    if table.bytes is not None:
        return whole_number(table.bytes, names)
    fmt = format_named(table.format)
    *outer, inner = sizes = [whole_number(dim, names) for dim in table.dims]
    if min(sizes) < 1:
        raise UnfitDeclaration(f"the scratch {table.name} has the sizes {sizes}")
    if inner % fmt.elements:
        raise UnfitDeclaration(
            f"the scratch {table.name} has rows of {inner}, no multiple of {fmt.elements}, "
            f"{fmt.name}'s block"
        )
    return prod(outer) * fmt.items(inner) * fmt.dtype.itemsize
