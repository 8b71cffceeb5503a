"""The catalogue as a table, to script `vkbench exec`, and what of ggml no kernel computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.programs import ggml_operations
from vkbench_tables.table import Cell, Column, Rank, Table

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

LACKING = (
    Column(key="operation", heading="operation", rank=Rank.KEY),
    Column(key="reason", heading="why no kernel computes it", prose=True),
)
PROGRAMS = ("ggml",)  # whose operations are listed


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


def lacking_table() -> Table:
    """ggml's operations without a kernel of ours; those that should have one are 'missing'."""
    rows = [
        {"operation": name, "reason": known}
        for name, known in ggml_operations.ALL.items()
        if isinstance(known, str)
    ]
    return Table(columns=LACKING, rows=rows, nothing="no operation of ggml is missing")


def describe_list() -> str:
    """Where the list of operations is from, and how many of them have kernels."""
    known = ggml_operations.ALL
    computed = sum(not isinstance(entry, str) for entry in known.values())
    return (
        f"ggml {ggml_operations.VERSION} ({ggml_operations.COMMIT}, {ggml_operations.DATE}) has"
        f" {len(known)} operations, of which kernels of the catalogue compute {computed}; these"
        " are the others"
    )
