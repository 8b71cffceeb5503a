"""Finds the build of a program that a command's options name, among those kept here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.errors import UsageError
from vkbench.settings import Settings

if TYPE_CHECKING:
    from vkbench.programs.build import Build
    from vkbench.programs.registry import ProgramStore
    from vkbench.programs.store import BuildStore


def kept_builds(settings: Settings) -> BuildStore:
    """The builds that are kept on this machine."""
    from vkbench.programs.store import BuildStore

    return BuildStore(settings.build_folder())


def kept_programs(settings: Settings) -> ProgramStore:
    """The programs that this machine knows: the built-in ones, and those that users added."""
    from vkbench.programs.registry import ProgramStore

    return ProgramStore(settings.program_folder())


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
