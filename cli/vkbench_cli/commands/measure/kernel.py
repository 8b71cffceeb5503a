"""`vkbench kernel`: begins and checks kernels of one's own."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.git import describe_folder
from vkbench.process.user import user_name
from vkbench.settings import settings
from vkbench.words import names
from vkbench.words.units import count_of
from vkbench_cli.groups import CommandGroup
from vkbench_cli.machine import devices_if_any
from vkbench_cli.options.declarations import find_declarations, for_each_declaration
from vkbench_cli.options.spreading import spread
from vkbench_cli.own import Sources, folder_of_sources
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench_shaders.own.building import Built

COLUMNS = (
    Column(key="kernel", heading="kernel", rank=Rank.KEY),
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
    pack: Annotated[
        str, Option("--pack", metavar="NAME", help="Write declarations of a project's shaders.")
    ] = "",
) -> None:
    """Write a kernel to begin with to a new folder: declaration, sources and reference.

    --pack ggml-vulkan, kompute, ncnn or uvkcompute writes declarations of shaders of that project,
    which run with --sources of your checkout of it.
    """
    from vkbench_shaders.own.building import EXAMPLE
    from vkbench_shaders.own.packs import PACKS

    if pack and shadow:
        raise UsageError("give only one of --shadow and --pack")
    if folder.exists():
        raise UsageError(f"{folder} exists already: give another folder")
    name = "one_pass" if shadow else "rms_quant"
    source, files = EXAMPLE, f"{name}.*"
    if pack:
        source, files = PACKS[names.pick(pack, PACKS, "pack")], "[!_]*.*"
    try:
        folder.mkdir(0o700, parents=True)
        for file in sorted(source.glob(files)):
            shutil.copy(file, folder)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise VkbenchError(f"cannot write {folder}: {error.strerror}") from error
    if pack:
        count = count_of(len(list(folder.glob("*.toml"))), "declaration")
        say(f"{count} of {pack}: vkbench run --kernel-file FILE --sources REPOSITORY[:FOLDER]")
        return
    say(f"vkbench kernel check {shlex.quote(str(folder / f'{name}.toml'))}")


@app.command()
@spread
def check(
    *,
    file: Annotated[
        list[Path],
        Argument(
            metavar="FILE",
            help="Declarations of kernels: TOML files, or folders of them.",
        ),
    ],
    sources: Sources = "",
    output: Output,
) -> int:
    """Compile and examine a kernel of your own, and work out its cases; run nothing.

    Prints what each variant takes from a launch and needs of a device, and which devices of this
    machine lack that. Whatever is wrong with the declaration, the sources or the reference is said
    in one line. The bundle is kept on this machine, so that `vkbench bisect --bundles` finds it.
    `vkbench run --kernel-file FILE` runs the kernel. Of several declarations those that are wrong
    are skipped with a line each, and the exit code is 2.
    """
    from vkbench_shaders.bundle import kept_bundles
    from vkbench_shaders.own.building import build

    folder, files = folder_of_sources(sources), find_declarations(file)
    describe = cache(describe_folder)  # the declarations of a pack lie in one
    origins: dict[str, str] = {}  # by the bundles' hashes

    def compile_kernel(path: Path) -> Built:
        built = build(path, user_name(), sources=folder)
        origins[built.bundle.sha] = describe(folder or path.parent)
        return built

    kernels = for_each_declaration(files, compile_kernel)
    devices = devices_if_any("no device is held against it")
    rows = [_row(built, variant, devices) for built in kernels for variant in built.units]
    shown = COLUMNS if len(kernels) > 1 else (replace(COLUMNS[0], hidden=True), *COLUMNS[1:])
    show(Table(columns=shown, rows=rows), output)
    for built in kernels:
        sha, kept = built.bundle.sha, kept_bundles(settings())
        kept.put(built.bundle)
        kept.note_origin(sha, origins[sha])
        timed = sum(case.is_timed for case in built.kernel.cases)
        cases = count_of(len(built.kernel.cases), "case")
        of = f" of {origins[sha]}" if origins[sha] else ""
        tell(f"{built.kernel.name}: {cases}, {timed} timed; bundle {sha[:12]}{of}")
    return UsageError.exit_code if len(kernels) < len(files) else 0


def _row(built: Built, name: str, devices: Sequence[DeviceFacts]) -> dict[str, Cell]:
    from vkbench_shaders.own.launching.own_unit import workgroup
    from vkbench_shaders.own.records import entries_of

    unit = built.units[name]
    declared = next(
        variant
        for variant in built.kernel.variants
        if unit.entry.entry in entries_of(variant.name, variant.steps)
    )
    launch = built.launches.get(name)
    lacking = {facts.name: sorted(set(unit.features) - set(facts.features)) for facts in devices}
    refusals = filter(None, (launch.refuses(facts) for facts in devices if launch))
    return {
        "kernel": built.kernel.name,
        "variant": name,
        "compiler": unit.by,
        "bytes": len(unit.code),
        "workgroup": "x".join(map(str, workgroup(unit, launch.constants if launch else {}))),
        "push": ", ".join(field.name for field in unit.interface.push),
        "constants": ", ".join(constant.name for constant in unit.interface.constants),
        "features": ", ".join(unit.features),
        "tolerance": declared.arithmetic,
        "lacking": "; ".join(
            [*(f"{at} lacks {', '.join(it)}" for at, it in lacking.items() if it), *refusals]
        ),
        "sha": unit.entry.sha256,
    }
