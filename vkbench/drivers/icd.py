"""A driver as the Vulkan loader knows it: a manifest that names a shared library."""

from __future__ import annotations

import json
import mmap
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vkbench.errors import UsageError
from vkbench.process.plain_file import open_plain

MOST_MANIFEST_BYTES: Final = 1 << 20
OF_NVIDIA: Final = "nvidia"  # in the name of the library of its own driver, and not of Mesa's
_ENTRY: Final = b"vk_icdGetInstanceProcAddr"  # the function that every driver has
_ELF: Final = b"\x7fELF"
_BITS: Final = {1: 32, 2: 64}  # by the byte of an ELF file after these four
_HEADER_BYTES: Final = 20
_SYSTEM_FOLDERS: Final = (  # where a library is looked for that is named without a folder
    *(f"/lib/{platform.machine()}-linux-gnu", f"/usr/lib/{platform.machine()}-linux-gnu"),
    *("/usr/lib64", "/lib64", "/usr/local/lib", "/usr/lib", "/lib"),
)


@dataclass(frozen=True, kw_only=True)
class Icd:
    """A driver's manifest, and the library that it names."""

    manifest: Path  # absolute
    library: Path  # absolute, links followed
    document: dict[str, Any]  # what the manifest holds

    def naming(self, library: str) -> bytes:
        """A manifest with all that this one says, which names another place of the library."""
        named = {**self.document["ICD"], "library_path": library}
        return json.dumps({**self.document, "ICD": named}, indent=4).encode()


def read_icd(path: Path, inside: Path | None = None) -> Icd:
    """The driver of a manifest; UsageError says in one line why it is none, or cannot be loaded.

    Of a driver that lies `inside` a folder, the library of that name there is meant: the manifest
    may say where it would be installed to, and another driver may be there.
    """
    document = _read_document(path)
    named = document["ICD"]["library_path"]
    library = _find_library(path, named, inside)
    if library is None:
        raise UsageError(f"{path} names the library {named}, which is not there")
    _check_library(library)
    return Icd(manifest=path.absolute(), library=library, document=document)


def list_places(manifest: Path) -> list[Path]:
    """Where the library of a manifest lies, the likeliest first; links in them are kept.

    UsageError where it is no manifest of a driver.
    """
    return _list_places(manifest, _read_document(manifest)["ICD"]["library_path"])


def _list_places(manifest: Path, named: str) -> list[Path]:
    """Where a library lies: beside the manifest, if a path leads there, or in the system."""
    folders = (manifest.absolute().parent,) if os.sep in named else _SYSTEM_FOLDERS
    return [place for folder in folders if (place := Path(folder, named)).exists()]


def _read_document(path: Path) -> dict[str, Any]:
    with open_plain(path) as file:
        text = file.read(MOST_MANIFEST_BYTES + 1)
    drivers = 0

    def count_drivers(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal drivers
        drivers += sum(name == "ICD" for name, _ in members)
        return dict(members)

    try:
        document = json.loads(text.decode(), object_pairs_hook=count_drivers)
    except (ValueError, RecursionError) as error:
        raise _refusal(path, f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refusal(path, "it is no JSON object")
    icd = document.get("ICD")
    if drivers > 1 or isinstance(icd, list):
        raise UsageError(f"{path} has several drivers: give a manifest for each")
    if icd is None and {"layer", "layers"} & document.keys():
        raise _refusal(path, "it is that of a layer")
    if not isinstance(icd, dict):
        raise _refusal(path, 'it has no object "ICD"')
    if not isinstance(icd.get("library_path"), str) or not icd["library_path"]:
        raise _refusal(path, 'its "ICD" has no text "library_path"')
    return document


def _refusal(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} is no manifest of a Vulkan driver: {reason}")


def _find_library(manifest: Path, named: str, inside: Path | None) -> Path | None:
    """Where the library lies, with the links followed: that `inside` first, if one is."""
    libraries = [place.resolve() for place in _list_places(manifest, named)]
    if inside:
        copies = sorted(place.resolve() for place in inside.rglob(Path(named).name))
        inner = [place for place in [*libraries, *copies] if place in copies]
        libraries = inner or libraries
    return libraries[0] if libraries else None


def _check_library(library: Path) -> None:
    """UsageError unless this process could load a driver from the file."""
    with open_plain(library) as file:
        header = file.read(_HEADER_BYTES)
        if header.startswith(_ELF):
            _check_processor(library, header)
        elif sys.platform == "linux":
            raise UsageError(f"{library} is no shared library")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(_ENTRY) < 0:
                raise UsageError(f"{library} is no Vulkan driver: it has no {_ENTRY.decode()}")


def _check_processor(library: Path, header: bytes) -> None:
    with open("/proc/self/exe", "rb") as program:
        own = program.read(_HEADER_BYTES)
    if header[4] != own[4]:
        bits, own_bits = (_BITS.get(kind[4], 0) for kind in (header, own))
        raise UsageError(f"{library} is a library of {bits} bits, and vkbench runs with {own_bits}")
    if header[18:20] != own[18:20]:
        raise UsageError(f"{library} is for another processor than this machine's")
