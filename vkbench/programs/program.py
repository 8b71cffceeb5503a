"""Programs: native code of others that computes cases, and which files make a build of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vkbench.errors import UnknownName


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a build is made from a clean checkout of the program's sources."""

    command: str  # for sh -e, in the checkout
    folder: str  # where the build's files lie afterwards, below the checkout


@dataclass(frozen=True, kw_only=True)
class Program:
    """What vkbench needs to know of a program."""

    name: str
    description: str
    adapter: str  # how its builds are asked: ggml, by the C API of its shared libraries
    needs: tuple[str, ...]  # names of files that every build has; * stands for any characters
    takes: tuple[str, ...] = ()  # names of those that a build may have
    build: Recipe | None = None


# A checkout of llama.cpp has ggml in a folder, and llama-bench; one of ggml has neither. ggml's own
# use of ccache stays off: ccache refuses to be started by itself.
_MAKE_GGML: Final = """
if [ ! -e ggml/include/ggml-vulkan.h ] && [ ! -e include/ggml-vulkan.h ]; then
    echo "this is no checkout of llama.cpp or ggml that has the Vulkan backend" >&2
    exit 1
fi
cmake -B out -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_VULKAN=ON \\
    -DGGML_CCACHE=OFF -DGGML_BUILD_EXAMPLES=OFF -DGGML_BUILD_TESTS=OFF -DLLAMA_BUILD_TESTS=OFF \\
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_CURL=OFF -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$PWD/out/bin" \\
    -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$PWD/out/bin"
set -- ggml
if [ -e ggml/include/ggml-vulkan.h ]; then set -- ggml llama-bench; fi
cmake --build out --parallel "$(nproc)" --target "$@"
"""

GGML_VULKAN: Final = Program(
    name="ggml-vulkan",
    description="ggml's Vulkan backend, as llama.cpp and others ship it",
    adapter="ggml",
    needs=("libggml-base.so*", "libggml-vulkan.so*"),
    takes=("libggml.so*", "libggml-cpu*.so*", "libllama.so*", "libmtmd.so*", "llama-bench"),
    build=Recipe(command=_MAKE_GGML, folder="out/bin"),
)
PROGRAMS: Final = {program.name: program for program in (GGML_VULKAN,)}


def program_named(name: str) -> Program:
    """The program of a name; UnknownName lists those that there are."""
    if name not in PROGRAMS:
        raise UnknownName("program", name, known=tuple(PROGRAMS))
    return PROGRAMS[name]
