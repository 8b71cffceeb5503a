"""What a contained process may read and write: its system's files, and few folders of vkbench."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Final

from vkbench.settings import Settings
from vkbench_worker.containment import landlock
from vkbench_worker.containment.landlock import Access
from vkbench_worker.containment.shared_memory import FOLDER
from vkbench_worker.protocol import canary_folder, lock_folder

_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store"),
    *("/sys", "/proc", "/run/opengl-driver"),
    *("/etc/alternatives", "/etc/vulkan", "/etc/glvnd", "/etc/nvidia", "/etc/drirc", "/etc/amd"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone"),
    *("/etc/os-release", "/etc/lsb-release", "/etc/debian_version", "/etc/machine-id"),
    *("/etc/hostname", "/etc/hosts", "/etc/locale.alias", "/etc/mime.types"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
)
_DEVICES: Final = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
    *("/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel", "/dev/dxg", "/dev/mali*"),
    *("/dev/kgsl-3d0", "/dev/udmabuf", "/dev/dma_heap"),
)
# A driver names its threads by files there, and CUDA does not begin without. The folder is of this
# process alone: a CUDA program that it starts is refused. Memory and OOM score of the threads lie
# there too, which are the process's own.
THREADS: Final = Path("/proc/self/task")
# Variables of the loader and the linker that name files or folders; `:` between them.
_NAMING: Final = (
    *("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"),
    *("VK_LAYER_PATH", "VK_ADD_LAYER_PATH", "VK_IMPLICIT_LAYER_PATH", "LD_LIBRARY_PATH"),
)


def written_folders(settings: Settings) -> tuple[Path, ...]:
    """The folders that a runner writes."""
    return (
        settings.cache / "pipelines",
        driver_folder(settings),
        lock_folder(settings),
        canary_folder(settings),
    )


def driver_folder(settings: Settings) -> Path:
    """The home folder that drivers see, for their own caches and temporary files."""
    return settings.cache / "drivers"


def rules(
    settings: Settings,
    reads: Iterable[Path],
    writes: Iterable[Path],
    variables: Mapping[str, str],
    *,
    shared_memory: bool,
) -> Iterator[tuple[Path, Access]]:
    """All that a process may touch, given what it reads and writes beside a runner's own.

    `shared_memory`: it has a /dev/shm of its own, where drivers share memory.
    """
    system = [Path(place) for place in _SYSTEM]
    own = [settings.cache, settings.data / "tuning"]
    if listed := settings.bundle_list():
        own.append(listed)
    for path in (*system, *_pythons(), *own, *_paths_named_by(variables), *reads):
        yield path, landlock.READ
    yield THREADS, landlock.CHANGE
    for pattern in _DEVICES:
        for name in glob(pattern):
            yield Path(name), landlock.DEVICE
    if shared_memory:
        yield FOLDER, landlock.SHARED
    for path in (*written_folders(settings), *writes):
        yield path, landlock.WRITE


def _pythons() -> Iterator[Path]:
    for name in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path):
        if os.path.isabs(name):
            yield Path(name)


def _paths_named_by(variables: Mapping[str, str]) -> Iterator[Path]:
    """Files and folders of drivers and layers that are not the system's."""
    if home := variables.get("XDG_DATA_HOME"):
        yield Path(home, "vulkan")
    for variable in _NAMING:
        for name in filter(None, variables.get(variable, "").split(os.pathsep)):
            path = Path(name).absolute()
            yield path
            yield from _library(path)


def _library(manifest: Path) -> Iterator[Path]:
    """The folder of the library that a driver's manifest names by a path."""
    try:
        library = json.loads(manifest.read_bytes())["ICD"]["library_path"]
        yield (manifest.parent / library).resolve().parent
    except (OSError, ValueError, LookupError, TypeError):
        return
