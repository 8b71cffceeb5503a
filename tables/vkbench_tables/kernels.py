"""The catalogue as a table, in enough detail to script `vkbench exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank

if TYPE_CHECKING:
    from vkbench_shaders.kernel import Kernel

COLUMNS = (
    Column(key="name", heading="kernel", rank=Rank.KEY),
    Column(key="group", heading="group", rank=Rank.MINOR),
    Column(key="formats", heading="formats", prose=True),
    Column(key="variants", heading="variants"),
    Column(key="dims", heading="sizes"),
    Column(key="description", heading="description", prose=True),
    Column(key="bindings", heading="bindings", hidden=True),
    Column(key="storage", heading="storage of formats", hidden=True),
    Column(key="params", heading="parameters", hidden=True),
    Column(key="cases", heading="checked", hidden=True),
    Column(key="timed", heading="timed", hidden=True),
)


def kernel_row(kernel: Kernel) -> dict[str, Cell]:
    """A kernel of the catalogue."""
    from vkbench_shaders.catalogue import describe

    row: dict[str, Cell] = describe(kernel)
    row["formats"] = kernel.bindings[0].types
    row["storage"] = {name: _storage(name) for b in kernel.bindings for name in b.types}
    return row


def _storage(name: str) -> dict[str, Cell]:
    from vkbench_shaders.formats import format_named

    form = format_named(name)
    return {"dtype": form.dtype.name, "elements": form.elements, "bytes": form.bytes}
