"""Programs: native code of others that computes cases, and which files make a build of one.

ggml-vulkan is known by itself. A user declares others, each in a TOML file
(`vkbench/programs/registry.py`).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from vkbench.errors import UsageError
from vkbench.programs.ggml_cases import CASES

GGML, LINES, GOOGLE, NVBENCH = "ggml", "lines", "google-benchmark", "nvbench"
ADAPTERS: Final = {  # how builds of a program are asked
    GGML: "by the C API of ggml's shared libraries",
    LINES: "by lines of JSON: it reads a case, and answers with its samples",
    GOOGLE: "as a benchmark that Google Benchmark's library runs",
    NVBENCH: "as a benchmark that NVIDIA's nvbench runs",
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a build is made from a clean checkout of the program's sources."""

    command: str  # for sh -e, in the checkout
    folder: str  # where the build's files lie afterwards, below the checkout
    minutes: float | None = None  # after which the command is ended; None: after an hour

    @property
    def sha(self) -> str:
        """SHA-256 of what it says: another recipe makes a revision anew."""
        return hashlib.sha256(f"{self.command}\0{self.folder}".encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class OwnCases:
    """The cases of a program that are none of the catalogue's: their names, or what lists them."""

    names: tuple[str, ...] = ()
    list: tuple[str, ...] = ()  # a command in the build's folder, which prints a name a line


@dataclass(frozen=True, kw_only=True)
class Program:
    """What vkbench needs to know of a program; its fields are those of its TOML file."""

    name: str
    description: str
    adapter: str  # how its builds are asked: one of ADAPTERS
    needs: tuple[str, ...]  # names of files that every build has; * stands for any characters
    takes: tuple[str, ...] = ()  # names of those that a build may have
    arithmetic: str = ""  # whose limits judge products; "": those of our plainest code path
    run: tuple[str, ...] = ()  # what starts it, in the build's folder; ggml's is loaded instead
    build: Recipe | None = None
    cases: OwnCases | None = None


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
    adapter=GGML,
    needs=("libggml-base.so*", "libggml-vulkan.so*"),
    takes=("libggml.*", "libggml-cpu*.so*", "libllama*.so*", "libmtmd.so*", "llama-bench"),
    build=Recipe(command=_MAKE_GGML, folder="out/bin"),
    cases=OwnCases(names=CASES),
)
REPOSITORIES: Final = {GGML_VULKAN.name: "https://github.com/ggml-org/llama.cpp"}
_DRIVER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
DRIVER: Final = "driver"  # what a driver's files are a build of, as which they travel


def declare_driver(name: str) -> Program:
    """What is signed of a driver beside its files: what its owner calls it."""
    return Program(name=DRIVER, description=name, adapter="", needs=("icd.json",))


def is_driver_name(name: str) -> bool:
    """Whether a driver may have a name."""
    return bool(_DRIVER_NAME.fullmatch(name))


def check_driver_name(name: str) -> str:
    """A name that a driver may have; UsageError for any other."""
    if not is_driver_name(name):
        raise UsageError(
            f"{name[:60]!a} is no driver's name: give up to 40 letters, digits, dots, dashes "
            "and underscores, such as mesa-26.1"
        )
    return name


BUILT_IN: Final = {program.name: program for program in (GGML_VULKAN,)}
