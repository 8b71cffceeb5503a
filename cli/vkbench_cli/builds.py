"""Finds the build of a program that a command's options name, among those kept here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vkbench.errors import UsageError
from vkbench.settings import Settings
from vkbench_cli.show.telling import Elapsed, tell

if TYPE_CHECKING:
    from vkbench.programs.build import Build
    from vkbench.programs.making import Maker
    from vkbench.programs.program import Program
    from vkbench.programs.registry import ProgramStore
    from vkbench.programs.store import BuildStore
    from vkbench_local.making import Workshop


def kept_builds(settings: Settings) -> BuildStore:
    """The builds that are kept on this machine."""
    from vkbench.programs.store import BuildStore

    return BuildStore(settings.build_folder())


def kept_programs(settings: Settings) -> ProgramStore:
    """The programs that this machine knows: the built-in ones, and those that users added."""
    from vkbench.programs.registry import ProgramStore

    return ProgramStore(settings.program_folder())


def keep_program(file: Path, settings: Settings) -> Program:
    """Keep a program that a file declares, if its name is free among results."""
    from vkbench.programs.registry import read_program
    from vkbench_shaders.catalogue import is_code_path

    if is_code_path(name := read_program(file).name):
        raise UsageError(f"{file}: name: {name} is a code path of a kernel: choose another")
    return kept_programs(settings).add(file)


def program_chosen(word: str, settings: Settings) -> Program:
    """The program of a name, or the one that a TOML file declares, which is kept from then on."""
    if word.endswith(".toml"):
        return keep_program(Path(word), settings)
    return kept_programs(settings).find(word)


def maker_of(
    program: str, repository: Path, settings: Settings, limit_seconds: float = 0.0
) -> Maker:
    """What makes builds of a program, given by its name or file, from a repository's revisions."""
    from vkbench.programs.making import LIMIT_SECONDS, Maker

    return Maker(
        store=kept_builds(settings),
        program=program_chosen(program, settings),
        repository=repository,
        logs=settings.build_folder() / "logs",
        tell=tell,
        limit_seconds=limit_seconds or LIMIT_SECONDS,
    )


def workshop_of(settings: Settings) -> Workshop:
    """What makes the builds of a bisection on this machine, and says so."""
    from vkbench_local.making import Workshop

    return Workshop(settings=settings, tell=tell, watch=Elapsed)


def refuse_build(word: str) -> None:
    """UsageError where --build asks the fleet for what runs on this machine alone."""
    if word:
        raise UsageError("builds run on this machine alone yet: leave out --submit, or use `run`")


def build_chosen(word: str, bundle: str, settings: Settings) -> Build | None:
    """The build that --build names; None without the option."""
    if not word:
        return None
    if bundle:
        raise UsageError("--build has a program do the cases: leave out --bundle")
    return kept_builds(settings).find(word)
