"""`vkbench kernels`: what the catalogue holds, in enough detail to script `vkbench exec`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_cli.machine import devices_if_any
from vkbench_cli.options.records import Formats, Kernels, Store
from vkbench_cli.show.own import own_table
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_cli.store import reading
from vkbench_tables.kernels import (
    COLUMNS,
    PROGRAMS,
    class_table,
    describe_list,
    describe_tuned,
    kernel_row,
    lacking_table,
)
from vkbench_tables.table import Table


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
    own: Annotated[
        bool,
        Option("--own", help="List the kernels of users that the database has, and their owners."),
    ] = False,
    classes: Annotated[
        bool,
        Option(
            "--classes",
            help="List the classes of devices: their tuned cases, and what decides elsewhere.",
        ),
    ] = False,
    missing: Annotated[
        str,
        Option(
            "--missing",
            metavar="PROGRAM",
            help="List the operations of ggml that no kernel computes, each with the reason.",
        ),
    ] = "",
    store: Store,
    output: Output,
) -> None:
    """List kernels with their formats and variants.

    --json lists all that a script needs for `vkbench exec`: the bindings of each kernel with their
    types and sizes, how those types are stored (array type, elements and bytes per block), its
    parameters, and its variants with the device features that they require.

    --grid shows what works with each format on the devices of this machine (on a machine without
    a device: what the catalogue has). A cell is the best variant, or - if there is no such kernel.

    --own shows the newest bundle of each kernel that was run with --kernel-file.

    --classes shows how many cases the tuning table of each class of devices has, and by what tiles,
    threads and variants are estimated where it has none. A calibration counts there once a table
    that has it is installed: `vkbench tune --export FILE`, then `--install FILE`.

    --missing ggml shows those operations of a release of ggml that no kernel computes: some move no
    data, some are not for GPUs, and those that a kernel should compute are "missing".
    """
    from vkbench_shaders.catalogue import KERNELS, matching
    from vkbench_shaders.formats import FORMATS

    if grid + formats + own + classes + bool(missing) > 1:
        raise UsageError("give only one of --grid, --formats, --own, --classes and --missing")
    if classes:
        _show_classes([*kernel, *format], store, output)
        return
    if missing:
        _show_missing(missing, [*kernel, *format], output)
        return
    if own:
        with reading(store.settings()) as tx:
            show(own_table(tx, kernel), output)
        return
    kernel_names = {name for glob in kernel or ["*"] for name in matching(glob)}
    all_formats = [f.name for f in FORMATS]
    format_names = {
        name for glob in format or ["*"] for name in names.matching(glob, all_formats, "format")
    }
    if grid or formats:
        show(_about_formats(grid, format_names, kernel_names), output)
        return
    rows = [
        kernel_row(k)
        for k in KERNELS
        if k.name in kernel_names and format_names & set(k.bindings[0].types)
    ]
    show(Table(columns=COLUMNS, rows=rows), output)
    if not (output.json or output.csv) and (note := describe_tuned()):
        tell(note)


def _show_classes(chosen: list[str], store: Store, output: Output) -> None:
    from vkbench_db.ask import queries
    from vkbench_detection.series.calibrations import latest

    if chosen:
        raise UsageError("--classes lists classes of devices: it takes no --kernel and no --format")
    with reading(store.settings()) as tx:
        keys = {reached.device for reached in latest(tx)}
        calibrated = [row.facts for row in queries.devices(tx) if row.key in keys]
    here = devices_if_any("none of these classes has one here")
    show(class_table(here, calibrated), output)


def _show_missing(program: str, chosen: list[str], output: Output) -> None:
    names.pick(program, PROGRAMS, "program whose operations are listed")
    if chosen:
        raise UsageError("--missing lists operations of ggml: it takes no --kernel and no --format")
    tell(describe_list())
    show(lacking_table(), output)


def _about_formats(grid: bool, formats: set[str], kernels: set[str]) -> Table:
    from vkbench_cli.show.grid import formats_table, grid_table

    if grid:
        return grid_table(devices_if_any("this is the catalogue's own grid"), formats, kernels)
    return formats_table(formats)
