"""One variant of a user's kernel as it is launched: its dispatches, and the scratch they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

from vkbench.words import names as words
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Binding
from vkbench_shaders.own import slots, units
from vkbench_shaders.own.declaration import (
    Declaration,
    Declared,
    ScratchTable,
    VariantTable,
)
from vkbench_shaders.own.formulas import Number, value_of, whole_number
from vkbench_shaders.own.records import OwnLaunch, UnfitDeclaration
from vkbench_shaders.own.sources import Compiled
from vkbench_shaders.own.steps.dispatches import (
    MAY_LACK,
    REST,
    describe_dispatch,
    list_dispatches,
)
from vkbench_shaders.own.units import OwnUnit


@dataclass(frozen=True, kw_only=True)
class Composition:
    """A variant's dispatches with their code, in order."""

    variant: VariantTable
    dispatches: Sequence[VariantTable]
    units: Sequence[OwnUnit]
    scratch: Sequence[ScratchTable]  # that its code has; the one that is zero comes last

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


def compose(
    declared: Declared,
    variant: VariantTable,
    kernel: str,
    bindings: Sequence[Binding],
    compiled: dict[str, Compiled],
) -> Composition:
    """A variant's dispatches; UnfitDeclaration says why no worker would run them.

    What was compiled the same way for another variant is not compiled again.
    """
    dispatches = list_dispatches(variant)
    known = sorted(declared.table.scratch, key=lambda table: table.zero)
    slots_of = [_find_slots(declared, step, bindings, known, compiled) for step in dispatches]
    placed = {place for by_slot in slots_of for place in by_slot.values()}
    scratch = [table for place, table in enumerate(known, len(bindings)) if place in placed]
    numbers = _renumber(known, scratch, len(bindings))
    code = [
        units.unit_of(
            declared,
            dispatch,
            kernel,
            {slot: numbers[place] for slot, place in by_slot.items()},
            compiled,
        )
        for dispatch, by_slot in zip(dispatches, slots_of, strict=True)
    ]
    _check_outputs(variant, code, bindings)
    if variant.steps:
        _check_steps(dispatches, code)
        _check_placed(declared, variant, bindings, placed)
        _check_shared(variant, code)
    return Composition(variant=variant, dispatches=dispatches, units=code, scratch=scratch)


def launches_of(
    composition: Composition, known: Mapping[str, Number], case: str
) -> OwnLaunch | tuple[OwnLaunch, ...]:
    """The launch of a variant for a case, by its formulas; one for each step, where it has some."""
    launches = tuple(
        units.launch_of(dispatch, unit, known, case)
        for dispatch, unit in zip(composition.dispatches, composition.units, strict=True)
    )
    return launches if composition.variant.steps or composition.scratch else launches[0]


def sizes_of(composition: Composition, known: Mapping[str, Number], case: str) -> tuple[int, ...]:
    """Bytes of each scratch of a variant for a case."""
    variant = composition.variant
    macros = {n: v for n, v in variant.defines.items() if isinstance(v, int | float)}
    names = {**macros, **known}
    for name, formula in variant.constants.items():
        names.setdefault(name.removesuffix(MAY_LACK), value_of(formula, known))
    try:
        return tuple(_bytes_of(table, names) for table in composition.scratch)
    except UnfitDeclaration as error:
        raise UnfitDeclaration(f"{case}, {describe_dispatch(variant.name)}: {error}") from error


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


def _find_slots(
    declared: Declared,
    dispatch: VariantTable,
    bindings: Sequence[Binding],
    scratch: Sequence[ScratchTable],
    compiled: dict[str, Compiled],
) -> dict[slots.Slot, int]:
    """The place among the arrays and scratch of each set and number; of scratch, if it is used."""
    made = units.compile_dispatch(declared, dispatch, compiled)
    tables = units.list_places(declared, dispatch, bindings, scratch)
    try:
        by_slot = slots.slots_of(tables, made.buffers)
    except UnfitDeclaration as error:
        raise UnfitDeclaration(f"{describe_dispatch(dispatch.name)}: {error}") from error
    used = {buffer.slot for buffer in slots.buffers_of(made.code)}
    return {slot: place for slot, place in by_slot.items() if place < len(bindings) or slot in used}


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
    who = "no step has" if variant.steps else "the code does not have"
    for number, binding in enumerate(bindings):
        if binding.access == "out" and number not in used:
            raise UnfitDeclaration(
                f"variant {variant.name}: the output {binding.name} is binding {number}, "
                f"which {who}"
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
    placed: AbstractSet[int],
) -> None:
    """Raise UnfitDeclaration for an array that no step has, neither by name nor by number."""
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
