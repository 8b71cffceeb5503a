"""Which files of drivers and layers this process has loaded, as manifests and /proc name them.

Vulkan tells neither. The loader maps the libraries of all drivers that it finds, and those of the
layers that are in force, when an instance is made; so what is mapped afterwards is in use.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from vkbench.device import ICD, ICD_LIBRARY

SHA_DIGITS: Final = 12
NO_LAYERS: Final = "none"
_MAPS: Final = Path("/proc/self/maps")
_FIELDS_BEFORE_PATH: Final = 5  # of a line there
# What the library of a driver is called, by the number that Vulkan gives drivers. It decides only
# where several drivers are loaded.
_LIBRARY_WORDS: Final = dict(
    (
        *((1, "amdvlk"), (2, "amdvlk"), (3, "radeon"), (4, "nvidia"), (6, "intel")),
        *((10, "swiftshader"), (13, "lvp"), (18, "freedreno"), (19, "broadcom")),
        *((20, "panfrost"), (22, "virtio"), (23, "dzn"), (24, "nouveau"), (26, "asahi")),
    )
)


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """A library of a driver or layer that is mapped, and the manifest that names it."""

    manifest: Path
    library: Path  # links followed
    entry: Mapping[str, Any]  # what the manifest says of it


def describe_driver(driver: int, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The manifest of a driver, by its number, and its library's hash; empty where that is unclear.

    Several manifests that name one library are one driver.
    """
    loaded = _list_loaded(_driver_manifests(variables), ("ICD",))
    word = _LIBRARY_WORDS.get(driver, "")
    if len({file.library for file in loaded}) > 1:
        loaded = [file for file in loaded if word and word in file.library.name.lower()]
    if len({file.library for file in loaded}) != 1:
        return {}
    driver_file = loaded[0]
    manifest, library = driver_file.manifest, driver_file.library
    return {ICD: str(manifest), ICD_LIBRARY: _hash_file(library)}


def describe_layers(variables: Mapping[str, str] = os.environ) -> str:
    """The layers in force, explicit and implicit ones, each with its version; or NO_LAYERS."""
    manifests = _layer_manifests(variables)
    names = {
        " ".join(str(layer.entry.get(key, "")) for key in ("name", "implementation_version"))
        for layer in _list_loaded(manifests, ("layer", "layers"))
    }
    return ", ".join(sorted(name.strip() for name in names)) or NO_LAYERS


def _list_loaded(manifests: Sequence[Path], keys: Sequence[str]) -> list[LoadedFile]:
    mapped = _list_mapped()
    folders = {path.parent for path in mapped}
    return [
        LoadedFile(manifest=manifest, library=library, entry=entry)
        for manifest in manifests
        for entry in _read_entries(manifest, keys)
        for library in [_find_mapped(manifest, entry, mapped, folders)]
        if library
    ]


def _list_mapped() -> set[Path]:
    """The shared libraries of this process; none where the system has no /proc."""
    paths = set()
    with suppress(OSError):
        for line in _MAPS.read_text(errors="replace").splitlines():
            path = line.split(maxsplit=_FIELDS_BEFORE_PATH)[_FIELDS_BEFORE_PATH:]
            if path and path[0].startswith("/") and ".so" in path[0]:
                paths.add(Path(path[0]))
    return paths


def _read_entries(manifest: Path, keys: Sequence[str]) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(manifest.read_bytes())
        entries = [document[key] for key in keys if key in document]
    except (OSError, ValueError, TypeError, RecursionError):
        return []
    flat = [one for entry in entries for one in (entry if isinstance(entry, list) else [entry])]
    return [one for one in flat if isinstance(one, dict)]


def _find_mapped(
    manifest: Path, entry: Mapping[str, Any], mapped: set[Path], folders: set[Path]
) -> Path | None:
    """The mapped file that is the library which a manifest names."""
    named = entry.get("library_path")
    if not isinstance(named, str) or not named:
        return None
    places = [manifest.parent] if os.sep in named else folders
    with suppress(OSError):
        return next((p for place in places if (p := (place / named).resolve()) in mapped), None)
    return None


@cache
def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return ""
    return digest.hexdigest()[:SHA_DIGITS]


def _driver_manifests(variables: Mapping[str, str]) -> list[Path]:
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        if variables.get(name):
            return _list_files(variables[name])
    added = _list_files(variables.get("VK_ADD_DRIVER_FILES", ""))
    return [*added, *_list_in_folders(variables, "icd.d")]


def _layer_manifests(variables: Mapping[str, str]) -> list[Path]:
    manifests: list[Path] = []
    for kind, prefix in (("explicit_layer.d", "VK_"), ("implicit_layer.d", "VK_IMPLICIT_")):
        instead = variables.get(f"{prefix}LAYER_PATH", "")
        added = variables.get(f"{prefix.replace('VK_', 'VK_ADD_', 1)}LAYER_PATH", "")
        manifests += _list_files(f"{instead}{os.pathsep}{added}")
        manifests += [] if instead else _list_in_folders(variables, kind)
    return manifests


def _list_files(text: str) -> list[Path]:
    """The manifests that a variable names, by files or by folders."""
    paths = [Path(name).absolute() for name in text.split(os.pathsep) if name]
    return [file for path in paths for file in ([path] if path.is_file() else _manifests_in(path))]


def _manifests_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _list_in_folders(variables: Mapping[str, str], kind: str) -> list[Path]:
    """The manifests of a kind, in the folders in which the loader looks, in its order."""
    return [
        manifest
        for folder in dict.fromkeys(_folders(variables))
        for manifest in _manifests_in(Path(folder, "vulkan", kind))
    ]


def _folders(variables: Mapping[str, str]) -> Iterator[str]:
    home = variables.get("HOME", "/")
    yield variables.get("XDG_CONFIG_HOME") or f"{home}/.config"
    yield from (variables.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    yield from ("/etc", "/usr/local/etc")
    yield variables.get("XDG_DATA_HOME") or f"{home}/.local/share"
    yield from (variables.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep)
