"""Keeps what a declared driver's command leaves in a checkout, as a driver of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vkbench.drivers.declaration import DeclaredDriver
from vkbench.drivers.store import DriverStore
from vkbench.errors import UsageError
from vkbench.programs.build import Build, Commit, NoBuild
from vkbench.programs.program import Recipe


@dataclass(frozen=True, kw_only=True)
class DriverProduct:
    """The drivers that are made of revisions by what one file declares."""

    declared: DeclaredDriver
    store: DriverStore

    @property
    def name(self) -> str:
        """What the file calls them."""
        return self.declared.name

    @property
    def recipe(self) -> Recipe:
        """How such a driver is built."""
        return self.declared.build

    def check_name(self, name: str) -> None:
        """UsageError unless a driver that is to be made can have a name."""
        self.store.check_name(name)

    def list_kept(self) -> list[Build]:
        """The files of all drivers that are kept here."""
        return [driver.build for driver in self.store.list_drivers()]

    def keep(self, folder: Path, commit: Commit, name: str) -> Build:
        """Copy the driver in a folder; the same files are the driver that they were before."""
        try:
            manifest = _find_manifest(folder, self.declared.build.icd)
            called = self.declared.name_commit(commit)
            made = self.store.add_made(called, folder, manifest, commit).build
        except UsageError as error:  # says it of a checkout, which goes with all its folders
            raise NoBuild(str(error).replace(f"{folder.resolve()}/", "")) from error
        return self.rename(made, name) if name else made

    def rename(self, build: Build, name: str) -> Build:
        """Call a driver that is kept by another name, which no other driver has."""
        return self.store.rename(build, name)


def _find_manifest(folder: Path, pattern: str) -> Path | None:
    """The only manifest of a name below a folder; None where the declaration names none."""
    if not pattern:
        return None
    manifests = sorted(path for path in folder.resolve().rglob(pattern) if path.is_file())
    if len(manifests) != 1:
        several = " and ".join(str(path) for path in manifests[:2]) or "none"
        raise UsageError(f"its icd {pattern} should be one manifest: there is {several}")
    return manifests[0]
