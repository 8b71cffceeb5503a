"""Copies of a host's own drivers, so that an update can be timed against the driver before it.

A worker copies the driver that it runs on, as it starts and when that was updated: the manifest and
the library that it names. What the library loads from elsewhere, such as LLVM, is not copied. A
copy of a driver is known by the hash of its files, as one that a user added.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from vkbench.device import ICD, ICD_LIBRARY, DriverCopy, Environment, OwnDrivers
from vkbench.drivers.icd import OF_NVIDIA, Icd, read_icd
from vkbench.errors import VkbenchError
from vkbench.process import system
from vkbench.process.plain_file import open_bytes, open_plain
from vkbench.programs.build import SHA_SHOWN, Build, OpenFile
from vkbench.programs.program import DRIVER
from vkbench.programs.store import BuildStore

KEPT: Final = 2  # copies of one manifest's driver: the one that runs, and the one before
MOST_COPY_BYTES: Final = 256 << 20
_MOST_NAME: Final = 40 - 1 - SHA_SHOWN  # characters of a name before the digits of the hash
_STRANGE: Final = re.compile(r"[^A-Za-z0-9._]+")


class NoCopy(VkbenchError):
    """No copy is kept of the driver that a host runs on."""


def keep_own(environment: Environment, folder: Path) -> OwnDrivers:
    """Copy the driver of an environment unless that is done, and say what is kept, or why not.

    Of each manifest the last drivers are kept, however many devices they serve.
    """
    store = BuildStore(folder)
    reason = ""
    try:
        with _hold_lock(folder):
            _keep_copy(environment, store)
    except (OSError, VkbenchError) as error:
        reason = f"no copy of its driver is kept: {error}"
    copies = tuple(
        DriverCopy(name=build.name, sha=build.sha, library=library_of(build))
        for build in store.list_builds()
    )
    return OwnDrivers(copies=copies, reason=reason)


def remove_copies(copies: Collection[Build], folder: Path) -> int:
    """Remove copies of a host's own drivers while no worker keeps one; the bytes that are free."""
    if not copies:
        return 0
    with _hold_lock(folder):
        return BuildStore(folder).remove(copies)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Have the copies of a folder alone: the workers of all devices start together."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        system.lock(lock, waits=True)
        yield


def _keep_copy(environment: Environment, store: BuildStore) -> None:
    manifest, library = (environment.extra.get(name, "") for name in (ICD, ICD_LIBRARY))
    if not manifest or not library:
        raise NoCopy("which files it has is not clear")
    icd = read_icd(Path(manifest))
    if OF_NVIDIA in icd.library.name:
        raise NoCopy(
            "NVIDIA's works with the kernel module of its own version alone, of which the system "
            "has one; another version cannot be timed beside it"
        )
    size = icd.library.stat().st_size
    if size > MOST_COPY_BYTES:
        most = MOST_COPY_BYTES >> 20
        raise NoCopy(f"{icd.library} has {size >> 20} MiB, and copies have at most {most}")
    copies = [build for build in store.list_builds() if _manifest_of(build) == icd.manifest.name]
    own = next((build for build in copies if library_of(build) == library), None)
    if own is None:
        own = store.add(DRIVER, _open_files(icd), _name_copy(environment, library))
        if library_of(own) != library:
            store.remove([own])
            raise NoCopy(f"{icd.library} is another one than it was when the runner loaded it")
    store.renew(own)
    others = [build for build in copies if build.sha != own.sha]
    store.remove(others[: max(0, len(others) - (KEPT - 1))])


def _open_files(icd: Icd) -> dict[str, OpenFile]:
    named = icd.naming(f"./{icd.library.name}")
    return {
        icd.manifest.name: partial(open_bytes, named),
        icd.library.name: partial(open_plain, icd.library),
    }


def _name_copy(environment: Environment, library: str) -> str:
    """What people read of a copy: the driver's own name, its version, and digits of its hash."""
    words = f"{environment.driver}-{environment.driver_version}"
    plain = _STRANGE.sub("-", words).strip("-._")[:_MOST_NAME].rstrip("-._") or DRIVER
    return f"{plain}-{library}"


def _manifest_of(build: Build) -> str:
    return next((file.path for file in build.files if file.path.endswith(".json")), "")


def library_of(build: Build) -> str:
    """The first digits of the hash of a copy's library."""
    return next((f.sha[:SHA_SHOWN] for f in build.files if not f.path.endswith(".json")), "")
