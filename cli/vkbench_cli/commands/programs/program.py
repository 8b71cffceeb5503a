"""`vkbench program`: programs of others, and their builds, which are things under test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench.words.units import count_of
from vkbench_cli.builds import keep_program, kept_builds, kept_programs
from vkbench_cli.commands.programs.program_make import make_program_build, prune_builds
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench.programs.build import Build

PROGRAMS = (
    Column(key="name", heading="program", rank=Rank.KEY),
    Column(key="adapter", heading="adapter"),
    Column(key="builds", heading="builds", kind=ValueKind.COUNT),
    Column(key="description", heading="what it is", prose=True),
)
DECLARED = (
    Column(key="field", heading="field", rank=Rank.KEY),
    Column(key="value", heading="value", prose=True),
)
BUILDS = (
    Column(key="sha", heading="build", rank=Rank.KEY),
    Column(key="name", heading="name"),
    Column(key="program", heading="program"),
    Column(key="files", heading="files", kind=ValueKind.COUNT),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="added_at", heading="added", kind=ValueKind.TIME),
    Column(key="commit", heading="made of", prose=True),
    Column(key="folder", heading="stays in", prose=True),
)
FILES = (
    Column(key="path", heading="file", rank=Rank.KEY),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="sha", heading="SHA-256"),
)

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)
build_app = Typer(cls=CommandGroup, rich_markup_mode=None, no_args_is_help=True)
app.add_typer(build_app, name="build")

ProgramWord = Annotated[str, Argument(metavar="PROGRAM", help="Name of a program.")]
BuildWord = Annotated[
    str, Argument(metavar="BUILD", help="Name of a build, its hash, or the beginning of it.")
]
BuildName = Annotated[str, Option(metavar="NAME", help="What to call it, such as b9000.")]
NOTHING_YET = (
    "no build is kept here yet: `vkbench program build add PROGRAM FOLDER --name NAME` keeps one"
)


@app.callback()
def group() -> None:
    """Keep other programs and their builds, to check and time them."""


@build_app.callback()
def build_group() -> None:
    """Keep builds of a program: add, make, list, show and remove them."""


@app.command("ls")
@spread
def list_programs(*, output: Output) -> None:
    """List the programs whose builds vkbench can check and time."""
    programs = kept_programs(settings()).list_programs(tell)
    builds = kept_builds(settings()).list_builds()
    rows: list[dict[str, Cell]] = [
        {
            "name": program.name,
            "adapter": program.adapter,
            "builds": sum(build.program == program.name for build in builds),
            "description": program.description,
        }
        for program in programs
    ]
    show(Table(columns=PROGRAMS, rows=rows), output)


@app.command("add")
def add_program(
    file: Annotated[Path, Argument(metavar="FILE", help="TOML file that declares the program.")],
) -> None:
    """Add a program that a file declares; prints its name.

    A program of that name that was added before is replaced. Nothing is run.
    """
    say(keep_program(file, settings()).name)


@app.command("show")
@spread
def show_program(name: ProgramWord, *, output: Output) -> None:
    """Show what is declared of a program."""
    rows = [{"field": key, "value": value} for key, value in _describe_program(name)]
    show(Table(columns=DECLARED, rows=rows), output)


@app.command("rm")
def remove_program(name: ProgramWord) -> None:
    """Remove a program that was added, once it has no builds."""
    builds = sum(build.program == name for build in kept_builds(settings()).list_builds())
    if builds:
        are, them = ("is", "it") if builds == 1 else ("are", "them")
        raise UsageError(
            f"{count_of(builds, 'build')} of {name} {are} kept: remove {them} by "
            "`vkbench program build rm`"
        )
    kept_programs(settings()).remove(name)


@build_app.command("add")
def add_build(
    program: ProgramWord,
    place: Annotated[
        Path, Argument(metavar="FOLDER|ARCHIVE", help="Folder, tar or zip file with its files.")
    ],
    name: BuildName = "",
    in_place: Annotated[
        bool, Option("--in-place", help="Leave the files where they are, and copy none.")
    ] = False,
) -> None:
    """Keep a build of a program; prints its hash.

    Only the files that the program consists of are copied. The same files are the same build,
    from wherever they come. `vkbench run --build NAME` checks and times it. Files that stay in
    place are held against their hashes whenever a process of the build starts.
    """
    from vkbench.programs.sources import open_build, open_in_place

    known, store = kept_programs(settings()).find(program), kept_builds(settings())
    if in_place:
        with open_in_place(place, known) as (folder, opens):
            build = store.add(known.name, opens, name, folder=folder)
    else:
        with open_build(place, known) as opens:
            build = store.add(known.name, opens, name)
    say(build.sha)


build_app.command("make")(make_program_build)


@build_app.command("ls")
@spread
def list_builds(*, output: Output) -> None:
    """List the builds that are kept on this machine."""
    builds = kept_builds(settings()).list_builds()
    rows = [_describe_build(build) for build in builds]
    show(Table(columns=BUILDS, rows=rows, nothing=NOTHING_YET), output)


@build_app.command("show")
@spread
def show_build(word: BuildWord, *, output: Output) -> None:
    """Show the files of a build."""
    build = kept_builds(settings()).find(word)
    rows: list[dict[str, Cell]] = [
        {"path": file.path, "bytes": file.nbytes, "sha": file.sha} for file in build.files
    ]
    show(Table(columns=FILES, rows=rows), output)


@build_app.command("rm")
def remove_builds(
    words: Annotated[list[str], Argument(metavar="BUILD...", help="Names or hashes of builds.")],
) -> None:
    """Remove builds from this machine; their results stay."""
    from vkbench.words.units import rate_column

    store = kept_builds(settings())
    freed = store.remove([store.find(word) for word in words])
    unit, [size] = rate_column([freed], "B")
    tell(f"{size} {unit} are free again")


build_app.command("prune")(prune_builds)


def _describe_build(build: Build) -> dict[str, Cell]:
    return {
        "sha": build.sha,
        "name": build.name,
        "program": build.program,
        "files": len(build.files),
        "bytes": build.nbytes,
        "added_at": build.added_at,
        "commit": build.made_of,
        "folder": build.folder,
    }


def _describe_program(name: str) -> Iterator[tuple[str, str]]:
    """The fields of a program's declaration, those of its tables by both names."""
    for key, value in asdict(kept_programs(settings()).find(name)).items():
        inner = value if isinstance(value, dict) else {"": value}
        for part, item in inner.items():
            text = " ".join(item) if isinstance(item, (list, tuple)) else str(item or "")
            if text:
                yield ".".join(filter(None, (key, part))), text
