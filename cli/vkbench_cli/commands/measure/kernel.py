"""`vkbench kernel`: begins and checks kernels of one's own."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.user import user_name
from vkbench.settings import settings
from vkbench.words.units import count_of
from vkbench_cli.groups import CommandGroup
from vkbench_cli.machine import devices_if_any
from vkbench_cli.options.spreading import spread
from vkbench_cli.own import Sources, folder_of_sources
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench_shaders.own.building import Built

COLUMNS = (
    Column(key="variant", heading="variant", rank=Rank.KEY),
    Column(key="compiler", heading="compiler"),
    Column(key="bytes", heading="SPIR-V", kind=ValueKind.BYTES),
    Column(key="workgroup", heading="workgroup"),
    Column(key="push", heading="push constants"),
    Column(key="constants", heading="constants"),
    Column(key="features", heading="features"),
    Column(key="tolerance", heading="tolerance"),
    Column(key="lacking", heading="cannot run on", prose=True),
    Column(key="sha", heading="SHA-256", hidden=True),
)

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Begin a kernel of your own, and check the file that declares it."""


@app.command("new")
def write_template(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder to make.")],
    shadow: Annotated[
        bool, Option("--shadow", help="Write one that stands in for a kernel of the catalogue.")
    ] = False,
) -> None:
    """Write a kernel to begin with to a new folder: declaration, sources and reference."""
    from vkbench_shaders.own.building import EXAMPLE

    if folder.exists():
        raise UsageError(f"{folder} exists already: give another folder")
    name = "one_pass" if shadow else "rms_quant"
    try:
        folder.mkdir(0o700, parents=True)
        for file in sorted(EXAMPLE.glob(f"{name}.*")):
            shutil.copy(file, folder)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise VkbenchError(f"cannot write {folder}: {error.strerror}") from error
    say(f"vkbench kernel check {shlex.quote(str(folder / f'{name}.toml'))}")


@app.command()
@spread
def check(
    *,
    file: Annotated[Path, Argument(metavar="FILE", help="Declaration of the kernel: a TOML file.")],
    sources: Sources = "",
    output: Output,
) -> None:
    """Compile and examine a kernel of your own, and work out its cases; run nothing.

    Prints what each variant takes from a launch and needs of a device, and which devices of this
    machine lack that. Whatever is wrong with the declaration, the sources or the reference is said
    in one line. The bundle is kept on this machine, so that `vkbench bisect --bundles` finds it.
    `vkbench run --kernel-file FILE` runs the kernel.
    """
    from vkbench_shaders.bundle import kept_bundles
    from vkbench_shaders.own.building import build

    built = build(file, user_name(), sources=folder_of_sources(sources))
    kept_bundles(settings()).put(built.bundle)
    devices = devices_if_any("no device is held against it")
    rows = [_row(built, variant, devices) for variant in built.units]
    show(Table(columns=COLUMNS, rows=rows), output)
    kernel = built.kernel
    timed = sum(case.is_timed for case in kernel.cases)
    cases = count_of(len(kernel.cases), "case")
    tell(f"{kernel.name}: {cases}, {timed} timed; bundle {built.bundle.sha[:12]}")


def _row(built: Built, name: str, devices: Sequence[DeviceFacts]) -> dict[str, Cell]:
    from vkbench_shaders.own.records import entries_of
    from vkbench_shaders.own.units import workgroup

    unit = built.units[name]
    declared, place = next(
        (variant, place)
        for variant in built.kernel.variants
        for place, entry in enumerate(entries_of(variant.name, variant.steps))
        if entry == name
    )
    constants = built.kernel.cases[0].steps(declared.name)[place].constants
    lacking = {facts.name: sorted(set(unit.features) - set(facts.features)) for facts in devices}
    return {
        "variant": name,
        "compiler": unit.by,
        "bytes": len(unit.code),
        "workgroup": "x".join(map(str, workgroup(unit, constants))),
        "push": ", ".join(field.name for field in unit.interface.push),
        "constants": ", ".join(constant.name for constant in unit.interface.constants),
        "features": ", ".join(unit.features),
        "tolerance": declared.arithmetic,
        "lacking": "; ".join(f"{at} lacks {', '.join(it)}" for at, it in lacking.items() if it),
        "sha": unit.entry.sha256,
    }
