"""`vkbench kernels`: what the catalogue holds, in enough detail to script `vkbench exec`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench import names
from vkbench.errors import UsageError, VkbenchError
from vkbench_cli.options import Formats, Kernels
from vkbench_cli.show.layout import Rank
from vkbench_cli.show.printing import Cell, Column, Output, Table, show

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
        Option(
            "--grid",
            help=(
                "Table of formats and kernel families: the variant that each device of "
                "this machine runs."
            ),
        ),
    ] = False,
    formats: Annotated[
        bool,
        Option("--formats", help="List the formats: block size, bits per weight, compression."),
    ] = False,
    rocm: Annotated[
        bool,
        Option("--rocm", help="List the 123 kernels of the ROCm grid and their counterparts here."),
    ] = False,
    output: Output,
) -> None:
    """List kernels with their formats and variants.

    --json lists all that a script needs for `vkbench exec`: the bindings of each kernel with their
    types and sizes, how those types are stored (array type, elements and bytes per block), its
    parameters, and its variants with the device features that they require.

    --grid shows what works with each format on the devices of this machine (on a machine without
    a device: what the catalogue has). A cell is the best variant, or - if there is no such kernel.
    """
    from vkbench_shaders.catalogue import KERNELS, matching
    from vkbench_shaders.formats import FORMATS

    if grid + formats + rocm > 1:
        raise UsageError("give only one of --grid, --formats and --rocm")
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
    from vkbench_cli.show.grid import formats_table, grid_table, rocm_table

    if grid:
        return grid_table(_devices(), formats, kernels)
    return rocm_table() if rocm else formats_table(formats)


def _devices() -> list[DeviceFacts]:
    """The devices of this machine; none, and a word about it, where there is no driver."""
    from vkbench_local.machine import all_devices

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
