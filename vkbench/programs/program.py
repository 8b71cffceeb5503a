"""Programs: native code of others that computes cases, and which files make a build of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vkbench.errors import UnknownName


@dataclass(frozen=True, kw_only=True)
class Program:
    """What vkbench needs to know of a program."""

    name: str
    description: str
    adapter: str  # how its builds are asked: ggml, by the C API of its shared libraries
    needs: tuple[str, ...]  # names of files that every build has; * stands for any characters
    takes: tuple[str, ...] = ()  # names of those that a build may have


GGML_VULKAN: Final = Program(
    name="ggml-vulkan",
    description="ggml's Vulkan backend, as llama.cpp and others ship it",
    adapter="ggml",
    needs=("libggml-base.so*", "libggml-vulkan.so*"),
    takes=("libggml.so*", "libggml-cpu*.so*", "libllama*.so*", "libmtmd.so*", "llama-bench"),
)
PROGRAMS: Final = {program.name: program for program in (GGML_VULKAN,)}


def program_named(name: str) -> Program:
    """The program of a name; UnknownName lists those that there are."""
    if name not in PROGRAMS:
        raise UnknownName("program", name, known=tuple(PROGRAMS))
    return PROGRAMS[name]
