"""Where a dispatch has a kernel's arrays and scratch, by what the declaration says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vkbench.words import names as words
from vkbench_shaders.kernel import Binding
from vkbench_shaders.own.declaration import (
    BindingTable,
    Bound,
    Declared,
    ScratchTable,
    VariantTable,
)
from vkbench_shaders.own.steps.dispatches import MAY_LACK, describe_dispatch, is_step


def list_places(
    declared: Declared,
    variant: VariantTable,
    bindings: Sequence[Binding],
    scratch: Sequence[ScratchTable],
) -> list[BindingTable]:
    """The kernel's arrays and scratch, each where a dispatch has it; of a step, if it has it.

    Of a shadow the arrays are the catalogue's.
    """
    known = [binding.name for binding in bindings]
    what = f"binding of {declared.table.shadows or declared.table.name}"
    declarations = {words.pick(table.name, known, what): table for table in declared.table.bindings}
    tables = [declarations.get(name, BindingTable(name=name)) for name in known]
    tables += [
        BindingTable(
            name=table.name,
            binding=() if table.binding is None else table.binding,
            set=table.set,
        )
        for table in scratch
    ]
    if variant.bindings is not None:
        return _place_as_bound(tables, variant.bindings, describe_dispatch(variant.name))
    return [
        replace(table, optional=table.optional or is_step(variant) or place >= len(bindings))
        for place, table in enumerate(tables)
    ]


def _place_as_bound(tables: Sequence[BindingTable], bound: Bound, whose: str) -> list[BindingTable]:
    """Arrays and scratch, each where a dispatch says that it has it, or nowhere."""
    known, what = [table.name for table in tables], f"array or scratch of {whose}:"
    given = {words.pick(name.removesuffix(MAY_LACK), known, what): name for name in bound}
    return [
        replace(
            table,
            binding=bound[given[table.name]] if table.name in given else (),
            set=0,
            optional=table.optional or given.get(table.name, MAY_LACK).endswith(MAY_LACK),
        )
        for table in tables
    ]
