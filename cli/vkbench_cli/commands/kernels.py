"""`vkbench kernels`: what the catalogue holds, in enough detail to script `vkbench exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench import names
from vkbench_cli.options import Formats, Kernels, Output
from vkbench_cli.printing import Cell, Column, Table, show

if TYPE_CHECKING:
    from vkbench_shaders.kernel import Kernel

COLUMNS = (
    Column(key="name", heading="kernel"),
    Column(key="formats", heading="formats"),
    Column(key="variants", heading="variants"),
    Column(key="dims", heading="sizes"),
    Column(key="description", heading="description"),
    Column(key="bindings", heading="bindings", hidden=True),
    Column(key="storage", heading="storage of formats", hidden=True),
    Column(key="params", heading="parameters", hidden=True),
    Column(key="cases", heading="checked", hidden=True),
    Column(key="timed", heading="timed", hidden=True),
)


def kernels(*, kernel: Kernels = [], format: Formats = [], output: Output) -> None:  # noqa: B006
    """List kernels with their formats and variants.

    --json tells all that a script needs for `vkbench exec`: each kernel's bindings with their types
    and sizes, how those types are stored (array type, elements and bytes a block), its parameters,
    and its variants with the device features they require.
    """
    from vkbench_shaders.catalogue import KERNELS
    from vkbench_shaders.formats import FORMATS

    known = [k.name for k in KERNELS]
    wanted = {name for glob in kernel or ["*"] for name in names.matching(glob, known, "kernel")}
    formats = [f.name for f in FORMATS]
    typed = {name for glob in format or ["*"] for name in names.matching(glob, formats, "format")}
    rows = [_row(k) for k in KERNELS if k.name in wanted and typed & set(k.bindings[0].types)]
    show(Table(columns=COLUMNS, rows=rows), output)


def _row(kernel: Kernel) -> dict[str, Cell]:
    from vkbench_shaders.catalogue import describe

    row: dict[str, Cell] = describe(kernel)
    row["formats"] = kernel.bindings[0].types
    row["storage"] = {name: _storage(name) for b in kernel.bindings for name in b.types}
    return row


def _storage(name: str) -> dict[str, Cell]:
    from vkbench_shaders.formats import format_named

    form = format_named(name)
    return {"dtype": form.dtype.name, "elements": form.elements, "bytes": form.bytes}
