"""Runs llama.cpp's programs on one device, and finds the backend that they have for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from vkbench.device import NVIDIA, DeviceFacts
from vkbench.process import system
from vkbench.settings import Settings
from vkbench_worker.owner.child import ending
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.api import PEER, find_libraries
from vkbench_worker.peers.llama_cpp.ggml_file import COLOURS

_PLACES: Final = (".", "bin")  # of programs in a folder of them, and in one of an installation
PROCESSOR: Final = "CPU"  # ggml's backend of that name


class TooSlow(Exception):
    """The program did not answer in time."""


class Died(CannotDo):
    """The program was ended by a signal, as it is by an abort of its own."""


def program(name: str, settings: Settings) -> str:
    """The path of one of llama.cpp's programs; CannotDo if it is not there."""
    folders = [os.path.join(settings.ggml, place) for place in _PLACES] if settings.ggml else []
    if path := shutil.which(name, path=os.pathsep.join(folders) or None):
        return path
    for path in (os.path.join(folder, name) for folder in folders):
        if os.path.isfile(path):  # a contained process may open what it is not asked about
            return path
    where = settings.ggml or "PATH"
    raise CannotDo(f"llama.cpp's {name} is not in {where}: VKBENCH_GGML names its folder")


def places_read(settings: Settings) -> list[Path]:
    """Folders of this host that a contained process of the peer reads, in which its files are.

    A folder of a build tree or of an installation may link to files of its neighbours.
    """
    folders = {Path(settings.ggml).absolute()} if settings.ggml else set(_folders_of_path())
    near = {place for folder in folders for place in (folder, folder / "../bin", folder / "../lib")}
    files = (file for place in near for file in place.glob("*.so*"))
    linked = {file.resolve().parent for file in files if file.is_symlink()}
    return sorted({place.resolve() for place in near if place.exists()} | linked)


def _folders_of_path() -> Iterator[Path]:
    """Where llama.cpp's libraries and programs are that PATH leads to."""
    with suppress(CannotDo):
        yield from (path.absolute().parent for path in find_libraries(""))
    if found := shutil.which("llama-bench"):
        yield Path(found).absolute().parent


def environ(facts: DeviceFacts) -> dict[str, str]:
    """The variables by which llama.cpp's backends see this device alone."""
    seen = {"GGML_VK_VISIBLE_DEVICES": str(facts.index), "GGML_NO_BACKTRACE": "1"}
    variables = {**os.environ, **seen}
    if facts.vendor_id == NVIDIA:
        variables["CUDA_VISIBLE_DEVICES"] = f"GPU-{UUID(facts.uuid)}"
    return variables


def run(command: Sequence[str], variables: Mapping[str, str], seconds: float) -> str:
    """What a program prints; CannotDo if it cannot, Died if it dies, TooSlow if it takes longer."""
    try:
        done = subprocess.run(
            command,
            env=variables,
            capture_output=True,
            timeout=seconds,
            errors="replace",
            # a program of minutes does not outlive a peer that is killed
            preexec_fn=partial(system.end_with, os.getpid()) if system.IS_LINUX else None,
        )
    except subprocess.TimeoutExpired as error:
        raise TooSlow(f"{Path(command[0]).name} took more than {seconds:.0f} s") from error
    except OSError as error:
        raise CannotDo(f"cannot start {command[0]}: {error.strerror}") from error
    if done.returncode not in (0, 1):  # 1: some test failed
        words = next(filter(None, reversed(done.stderr.strip().splitlines())), "")
        how = f"{Path(command[0]).name} ended with {ending(done.returncode)}: {words}"
        raise (Died if done.returncode < 0 else CannotDo)(how[:300])
    return COLOURS.sub("", done.stdout)


def backend_of(facts: DeviceFacts, backends: Mapping[str, str]) -> str:
    """The backend that describes itself as this device; that of processors serves their drivers."""
    named = [name for name, described in backends.items() if described == facts.name]
    if named:
        return min(named, key=lambda name: not name.startswith("Vulkan"))
    if facts.type == "cpu" and PROCESSOR in backends:
        return PROCESSOR
    has = ", ".join(backends) or "none"
    raise CannotDo(f"{PEER} has no backend for {facts.name}: it has {has}")
