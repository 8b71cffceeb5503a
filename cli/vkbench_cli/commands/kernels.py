"""`vkbench kernels`: what the catalogue holds, in enough detail to script `vkbench exec`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench import names
from vkbench.errors import UsageError, VkbenchError
from vkbench_cli.layout import Rank
from vkbench_cli.options import Formats, Kernels, Output
from vkbench_cli.printing import Cell, Column, Table, show

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
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


def kernels(
    *,
    kernel: Kernels = [],  # noqa: B006
    format: Formats = [],  # noqa: B006
    grid: Annotated[
        bool,
        Option("--grid", help="Formats by families: the code path that each device here takes."),
    ] = False,
    formats: Annotated[
        bool, Option("--formats", help="Formats: blocks, bits a weight, compression.")
    ] = False,
    rocm: Annotated[
        bool, Option("--rocm", help="The 123 kernels of the ROCm grid, and what they are here.")
    ] = False,
    output: Output,
) -> None:
    """List kernels with their formats and variants.

    --json tells all that a script needs for `vkbench exec`: each kernel's bindings with their types
    and sizes, how those types are stored (array type, elements and bytes a block), its parameters,
    and its variants with the device features they require.

    --grid tells what can be done with each format on the devices of this machine, and without one
    what the catalogue has: a cell is the best code path, or - where there is no such kernel.
    """
    from vkbench_shaders.catalogue import KERNELS, matching
    from vkbench_shaders.formats import FORMATS

    if grid + formats + rocm > 1:
        raise UsageError("--grid, --formats and --rocm are three tables: ask for one")
    wanted = {name for glob in kernel or ["*"] for name in matching(glob)}
    all_formats = [f.name for f in FORMATS]
    typed = {
        name for glob in format or ["*"] for name in names.matching(glob, all_formats, "format")
    }
    if grid or formats or rocm:
        show(_about_formats(grid, rocm, typed, wanted), output)
        return
    rows = [_row(k) for k in KERNELS if k.name in wanted and typed & set(k.bindings[0].types)]
    show(Table(columns=COLUMNS, rows=rows), output)


def _about_formats(grid: bool, rocm: bool, formats: set[str], kernels: set[str]) -> Table:
    from vkbench_cli.grid import formats_table, grid_table, rocm_table

    if grid:
        return grid_table(_devices(), formats, kernels)
    return rocm_table() if rocm else formats_table(formats)


def _devices() -> list[DeviceFacts]:
    """The devices of this machine; none, and a word about it, where there is no driver."""
    from vkbench_cli.machine import all_devices

    try:
        return all_devices()
    except (VkbenchError, ModuleNotFoundError) as error:
        print(f"no device here, so this is the catalogue's own grid: {error}", file=sys.stderr)
        return []


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
