"""Which programs there are: those that vkbench knows by itself, and those that users declared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vkbench.errors import UnknownName, UsageError
from vkbench.process.declared_files import DeclaredFiles
from vkbench.process.toml_file import read_toml
from vkbench.programs.declaration import check_program
from vkbench.programs.program import BUILT_IN, Program
from vkbench.words import names


def read_program(path: Path) -> Program:
    """The program that a file declares; UsageError says in one line what is wrong with it."""
    program = read_toml(path, Program)
    try:
        return check_program(program)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


class ProgramStore:
    """The programs of a machine; its folder holds the declarations of users."""

    def __init__(self, folder: Path) -> None:
        self._files = DeclaredFiles(folder=folder, what="programs")

    def find(self, name: str) -> Program:
        """The program of a name; UnknownName lists those that there are."""
        if name in BUILT_IN:
            return BUILT_IN[name]
        if name not in self._files.list_names():
            names.pick(name, [*BUILT_IN, *self._files.list_names()], "program")
            raise UnknownName("program", name)  # one of that name in other letters is another
        program = read_program(self._files.place_of(name))
        if program.name != name:
            raise UsageError(f"{self._files.place_of(name)} declares {program.name}: add it again")
        return program

    def list_programs(self, complain: Callable[[str], None]) -> list[Program]:
        """All programs, the built-in ones first; those whose files cannot be read are told."""
        programs = list(BUILT_IN.values())
        for name in self._files.list_names():
            try:
                programs.append(self.find(name))
            except UsageError as error:
                complain(str(error))
        return programs

    def add(self, path: Path) -> Program:
        """Keep what a file declares; a program of that name is replaced."""
        program = read_program(path)
        self._files.keep(path, program.name)
        return program

    def remove(self, name: str) -> None:
        """Forget a program that was added."""
        if name in BUILT_IN:
            raise UsageError(f"{name} is a program that vkbench has by itself: it stays")
        if name not in self._files.list_names():
            self.find(name)
        self._files.remove(name)
