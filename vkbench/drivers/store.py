"""Keeps the drivers that a user added, as builds are kept: by the hashes of their files.

The files of an installed driver stay where they are. Those of a folder, as one's own build of Mesa
leaves it, may be copied: then the next build in that folder is another driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import count
from os.path import commonpath, relpath
from pathlib import Path
from typing import Final

from vkbench.device import HostDriver
from vkbench.drivers.declared import DeclaredDriver
from vkbench.drivers.icd import Icd, read_icd
from vkbench.drivers.packages import libraries_of, list_manifests
from vkbench.errors import UsageError
from vkbench.process.plain_file import open_bytes, open_plain
from vkbench.programs.build import SHA_SHOWN, Build, Commit, NoBuild, OpenFile
from vkbench.programs.program import DRIVER, Recipe, check_driver_name
from vkbench.programs.sources import FolderSource
from vkbench.programs.store import BuildStore, DamagedBuild
from vkbench.settings import Settings
from vkbench.words.names import pick_sha

MOST_ANNOUNCED: Final = 64  # drivers of a host that the fleet is told of
_MANIFEST: Final = "icd.json"  # of a driver whose files are copied
_LOADER: Final = re.compile(r"ld-linux[A-Za-z0-9_-]*\.so\.[0-9]+")
_LIBRARY: Final = re.compile(r".*\.(so|dylib|dll)(\.[0-9.]+)?")


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A driver that was added: its manifest for the loader, and its libraries."""

    build: Build  # its files
    manifest: str  # path of one of them

    @property
    def name(self) -> str:
        """What its user calls it."""
        return self.build.name

    @property
    def sha(self) -> str:
        """The hash of its files."""
        return self.build.sha

    @property
    def loader(self) -> str:
        """Path of the file that starts programs with the C library of its own, if it has one."""
        paths = (file.path for file in self.build.files)
        return next((path for path in paths if _LOADER.fullmatch(path.rpartition("/")[2])), "")

    @property
    def is_in_place(self) -> bool:
        """Whether its files stay where the user or the system has them."""
        return bool(self.build.folder)


class DriverStore:
    """The drivers of a machine, which a folder keeps."""

    def __init__(self, folder: Path, *others: Path) -> None:
        """With more folders: builds there may be drivers that came by the queue, or own copies."""
        self._builds = BuildStore(folder)
        self._stores = (self._builds, *map(BuildStore, others))

    def add(self, name: str, manifest: Path) -> Driver:
        """Note an installed driver: its manifest and its library, which stay where they are."""
        self.check_name(name)
        icd = read_icd(manifest)
        places = (icd.manifest, icd.library)
        folder = Path(commonpath([place.parent for place in places]))
        opens: dict[str, OpenFile] = {
            relpath(place, folder): partial(open_plain, place) for place in places
        }
        return self._keep(name, opens, folder)

    def add_folder(self, name: str, folder: Path, manifest: Path | None) -> Driver:
        """Copy a driver: all libraries of a folder, with its manifest or the only one in it."""
        self.check_name(name)
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}")
        return self._keep(name, _open_folder(folder, manifest), None)

    def add_made(self, name: str, folder: Path, manifest: Path | None, commit: Commit) -> Driver:
        """Copy a driver of a folder that was made of a commit.

        Its name is another one if that is taken; a driver that has these files stays what it is.
        """
        known = {driver.sha for driver in self.list_drivers()}
        build = self._builds.add(DRIVER, _open_folder(folder, manifest), commit=commit)
        is_new = build.sha not in known
        return _driver_of(self._builds.rename(build, self._free_name(name)) if is_new else build)

    def rename(self, build: Build, name: str) -> Build:
        """Call a driver by another name; UsageError where another driver has it."""
        if name != build.name:
            self.check_name(name)
        return self._builds.rename(build, name)

    def add_packages(self, name: str, suite: str, manifest: str, unpacked: Path) -> Driver:
        """Copy a driver of an unpacked release, with its C library and all else that it needs."""
        self.check_name(name)
        manifests = {path.name: path for path in list_manifests(unpacked)}
        if manifest not in manifests:
            several = ", ".join(manifests) or "no driver"
            raise UsageError(f"the packages of {suite} have {several}: give one by --icd")
        icd = read_icd(manifests[manifest], unpacked)
        opens: dict[str, OpenFile] = {
            path.name: partial(open_plain, path.resolve()) for path in libraries_of(unpacked)
        }
        opens[icd.library.name] = partial(open_plain, icd.library)
        opens[_MANIFEST] = partial(open_bytes, icd.naming(f"./{icd.library.name}"))
        return self._keep(name, opens, None)

    def find(self, word: str) -> Driver:
        """The driver of a name, or whose hash begins so."""
        drivers = {driver.sha: driver for driver in self.list_drivers()}
        if not drivers:
            raise UsageError(
                f"unknown driver '{word}': none was added yet, which "
                "`vkbench driver add NAME --icd FILE` does"
            )
        return drivers[pick_sha(word, {sha: d.name for sha, d in drivers.items()}, DRIVER)]

    def find_any(self, sha: str) -> Driver:
        """The driver of a whole hash, added here or fetched or copied; UsageError if none is."""
        for store in self._stores:
            for build in store.list_builds():
                if build.sha == sha and build.program == DRIVER:
                    return _driver_of(build)
        raise UsageError(f"there is no driver {sha[:SHA_SHOWN]} on this host")

    def has(self, sha: str) -> bool:
        """Whether the driver of a whole hash was added here."""
        return self._builds.has(sha)

    def list_drivers(self) -> list[Driver]:
        """All that were added, the newest last."""
        return [_driver_of(build) for build in self._builds.list_builds()]

    def list_for_fleet(self) -> tuple[HostDriver, ...]:
        """The names and hashes of those that were added last, for the fleet to know."""
        newest = self.list_drivers()[-MOST_ANNOUNCED:]
        return tuple(HostDriver(name=driver.name, sha=driver.sha) for driver in newest)

    @property
    def builds(self) -> BuildStore:
        """The files of those that were added."""
        return self._builds

    def remove(self, driver: Driver) -> int:
        """Forget a driver; the bytes that are free again, none of files that stay in place."""
        return self._builds.remove([driver.build])

    def prepare(self, driver: Driver) -> Path:
        """The manifest for the loader; DamagedBuild where a file is not what it was."""
        try:
            if driver.is_in_place:
                for file in driver.build.files:
                    self._builds.check_file(driver.build, file)
                return Path(driver.build.folder, driver.manifest)
            kept = (store for store in self._stores if store.has(driver.sha))
            return next(kept, self._builds).lay_out(driver.build) / driver.manifest
        except DamagedBuild as error:
            words = str(error).replace("of the build", f"of driver {driver.name}", 1)
            raise DamagedBuild(words) from error

    def _keep(self, name: str, opens: dict[str, OpenFile], folder: Path | None) -> Driver:
        before = {driver.sha: driver.name for driver in self.list_drivers()}
        build = self._builds.add(DRIVER, opens, name, folder=folder)
        if known := before.get(build.sha):
            self._builds.rename(build, known)
            raise UsageError(f"these files are the driver {known} already")
        return _driver_of(build)

    def check_name(self, name: str) -> None:
        """UsageError unless a new driver can have a name."""
        check_driver_name(name)
        if any(driver.name == name for driver in self.list_drivers()):
            raise UsageError(
                f"there is a driver {name} already: `vkbench driver rm {name}` forgets it"
            )

    def _free_name(self, name: str) -> str:
        """A name that no driver has: this one, or with a number behind it."""
        taken = {driver.name for driver in self.list_drivers()}
        names = (f"{name}-{number}" if number > 1 else name for number in count(1))
        return next(free for free in names if free not in taken)


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
            manifest = _find_named_manifest(folder, self.declared.build.icd)
            called = self.declared.name_commit(commit)
            made = self.store.add_made(called, folder, manifest, commit).build
        except UsageError as error:  # says it of a checkout, which goes with all its folders
            raise NoBuild(str(error).replace(f"{folder.resolve()}/", "")) from error
        return self.rename(made, name) if name else made

    def rename(self, build: Build, name: str) -> Build:
        """Call a driver that is kept by another name, which no other driver has."""
        return self.store.rename(build, name)


def drivers_of(settings: Settings) -> DriverStore:
    """The drivers of this machine: those that were added, its own ones, and what jobs brought."""
    others = (settings.own_driver_folder(), settings.build_folder())
    return DriverStore(settings.driver_folder(), *others)


def _driver_of(build: Build) -> Driver:
    manifests = [file.path for file in build.files if file.path.endswith(".json")]
    if len(manifests) != 1:
        raise UsageError(f"driver {build.label} has no manifest, or several")
    return Driver(build=build, manifest=manifests[0])


def _find_manifest(folder: Path) -> Path:
    """The only manifest of a driver in a folder."""
    manifests = sorted(path for path in folder.rglob("*icd*.json") if path.is_file())
    if not manifests:
        raise UsageError(f"there is no manifest *icd*.json in {folder}: give it by --icd")
    if len(manifests) > 1:
        several = " and ".join(str(path) for path in manifests[:2])
        raise UsageError(f"{folder} has several drivers, {several}: give one by --icd")
    return manifests[0]


def _find_named_manifest(folder: Path, pattern: str) -> Path | None:
    """The only manifest of a name below a folder; None where the declaration names none."""
    if not pattern:
        return None
    manifests = sorted(path for path in folder.resolve().rglob(pattern) if path.is_file())
    if len(manifests) != 1:
        several = " and ".join(str(path) for path in manifests[:2]) or "none"
        raise UsageError(f"its icd {pattern} should be one manifest: there is {several}")
    return manifests[0]


def _open_folder(folder: Path, manifest: Path | None) -> dict[str, OpenFile]:
    """The files of a driver in a folder, with its manifest or the only one there."""
    icd = read_icd(manifest or _find_manifest(folder), folder)
    if not icd.library.is_relative_to(folder.resolve()):
        raise UsageError(f"{icd.manifest} names {icd.library}, which is not in {folder}")
    return _open_copies(folder, icd)


def _open_copies(folder: Path, icd: Icd) -> dict[str, OpenFile]:
    """The files of a driver that is copied: libraries, and a manifest that names its own copy."""
    source = FolderSource(folder)
    opens: dict[str, OpenFile] = {
        path: partial(source.open_file, path)
        for path in source.list_paths()
        if _LIBRARY.fullmatch(path.rpartition("/")[2])
    }
    library = relpath(icd.library, folder.resolve())
    opens[library] = partial(source.open_file, library)
    opens[_MANIFEST] = partial(open_bytes, icd.naming(f"./{library}"))
    return opens
