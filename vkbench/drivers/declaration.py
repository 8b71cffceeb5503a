"""Reads and keeps the files in which users declare how a driver is built from a checkout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from vkbench.drivers.declared import DeclaredDriver
from vkbench.errors import UnknownName, UsageError
from vkbench.process.declared_files import DeclaredFiles
from vkbench.process.toml_file import read_toml
from vkbench.programs.declaration import check_recipe
from vkbench.settings import Settings
from vkbench.words import names

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,23}")  # that of a revision comes behind it
_MANIFEST: Final = re.compile(r"[A-Za-z0-9._*?-]{1,100}")
_DECLARED: Final = "driver's file"


def read_declared_driver(path: Path) -> DeclaredDriver:
    """The driver that a file declares; UsageError says in one line what is wrong with it."""
    declared = read_toml(path, DeclaredDriver)
    try:
        return _check_declared(declared)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _check_declared(declared: DeclaredDriver) -> DeclaredDriver:
    if not _NAME.fullmatch(declared.name):
        raise UsageError(
            f"name: {declared.name[:60]!a} is no name: give up to 24 letters, digits, dots, dashes "
            "and underscores, such as lavapipe"
        )
    check_recipe(declared.build)
    if declared.build.icd and not _MANIFEST.fullmatch(declared.build.icd):
        raise UsageError(
            f"build: icd {declared.build.icd[:60]!a} is no name of a manifest below the folder, "
            "such as lvp_icd.*.json"
        )
    return declared


class DeclaredDrivers:
    """The drivers that users of this machine declared by files."""

    def __init__(self, folder: Path) -> None:
        self._files = DeclaredFiles(folder=folder, what="drivers' files")

    def add(self, path: Path) -> DeclaredDriver:
        """Keep what a file declares; a driver of that name is replaced."""
        declared = read_declared_driver(path)
        self._files.keep(path, declared.name)
        return declared

    def find(self, name: str) -> DeclaredDriver:
        """The declared driver of a name; UnknownName lists those that there are."""
        known = self._files.list_names()
        if not known:
            raise UsageError(
                f"no {_DECLARED} is known as '{name}': give the path of one, NAME.toml"
            )
        if name not in known:
            names.pick(name, known, _DECLARED)
            raise UnknownName(_DECLARED, name)  # one of that name in other letters is another
        return read_declared_driver(self._files.place_of(name))


def declared_drivers(settings: Settings) -> DeclaredDrivers:
    """The drivers that this machine's users declared."""
    return DeclaredDrivers(settings.driver_folder() / "declared")
