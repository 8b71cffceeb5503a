"""The own cases of a build of a program: listed by the build, contained, and chosen by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vkbench.case import program_of
from vkbench.errors import NothingToDo
from vkbench.programs.build import Build
from vkbench.programs.program import GGML
from vkbench.programs.registry import ProgramStore
from vkbench.programs.store import BuildStore
from vkbench.settings import Settings
from vkbench.words import names
from vkbench.words.units import count_of
from vkbench_scheduler.planning.selection import Selection
from vkbench_worker.peers.programs.listing import list_cases

Complain = Callable[[str], None]


def choose_own_cases(
    selection: Selection,
    build: Build,
    settings: Settings,
    complain: Complain,
    *,
    is_open: bool,
) -> Selection:
    """The selection with the build's own cases by their whole names, each of which it has.

    One that is open chooses nothing: then all of the program's own cases run, if it has any and
    computes little of the catalogue.
    """
    program = ProgramStore(settings.program_folder()).find(build.program)
    asked = [name for name in selection.cases if program_of(name) == program.name]
    if not asked and (not is_open or program.adapter == GGML):
        return selection  # an open one of ggml is of the catalogue, as those of our kernels are
    listed = list_own_cases(build, settings, complain)
    if is_open:
        return replace(selection, suite="", cases=tuple(listed)) if listed else selection
    if not listed:
        raise NothingToDo(f"{program.name} lists no cases of its own: its declaration names none")
    cases: list[str] = []
    for name in selection.cases:
        is_own = program_of(name) == program.name
        cases += names.matching(name, listed, f"case of {program.name}") if is_own else [name]
    return replace(selection, cases=tuple(dict.fromkeys(cases)))


def list_own_cases(build: Build, settings: Settings, complain: Complain) -> Sequence[str]:
    """List the own cases of a build; complain to the user of names that no case can have."""
    program = ProgramStore(settings.program_folder()).find(build.program)
    listed = list_cases(program, BuildStore(settings.build_folder()).lay_out(build))
    if listed.unnamed:
        complain(
            f"left out {count_of(len(listed.unnamed), 'case')} of {program.name} that cannot be "
            f"named so here, such as {listed.unnamed[0][:60]!a}"
        )
    return listed.cases
