"""Finds a Slang compiler, or fetches one once, and compiles units of source to SPIR-V."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vkbench.errors import VkbenchError
from vkbench.process import system
from vkbench.process.interpreter import python
from vkbench.settings import Settings, settings
from vkbench_shaders.compile import session, spirv
from vkbench_shaders.compile.tree import source_of

WHEEL = "slangtorch==1.3.22"  # the smallest wheel that carries a slangc
HASHES = (  # of its files for Linux, macOS and Windows
    "377891b2ed697b3a2bc4af53c7f2ae5b580a80251f6f672b461481137f47dff5",
    "7755f2f53509ebbd65839dcd8a104e7105aeaf3e3600aea9385c2bec9beb2eaa",
    "f4cc30da8231cdb2dd960642f1e9df512c287873eb49120074af0e49f7fc3586",
)
FLAGS = (
    "-target",
    "spirv",
    "-profile",
    "spirv_1_5",
    "-O0",
    "-stage",
    "compute",
    "-warnings-disable",
    "39001",
)
# -O0: the wheel has no spirv-opt, and drivers optimise anyway. 39001 warns that two views of one
# buffer have the same binding.


class NoCompiler(VkbenchError):
    """No Slang compiler was found or could be fetched; set VKBENCH_SLANGC to a slangc."""


class CompileError(VkbenchError):
    """A shader does not compile."""


@dataclass(frozen=True, kw_only=True, order=True)
class Unit:
    """One thing to compile: an entry point with its generic arguments."""

    module: str
    entry: str
    arguments: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Name of the unit in a bundle."""
        generic = f"<{','.join(self.arguments)}>" if self.arguments else ""
        return f"{self.module}/{self.entry}{generic}"


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A slangc that answered with its version."""

    path: Path
    version: str
    library: Path | None = None  # its shared library, if session.py knows this version

    def __str__(self) -> str:
        return f"slangc {self.version} at {self.path}"

    def compile(self, unit: Unit, tree: Path, flags: Sequence[str] = ()) -> bytes:
        """SPIR-V of a unit; CompileError carries the compiler's own message with file and line."""
        source = source_of(unit.module, tree)
        specialised = [word for argument in unit.arguments for word in ("-specialize", argument)]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "unit.spv")
            options = ["-entry", unit.entry, *specialised, "-o", str(out)]
            done = _run(self.path, str(source), *FLAGS, "-I", str(tree), *flags, *options)
            if done.returncode or not out.exists():
                complaint = (
                    done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
                )
                raise CompileError(f"{unit.key} does not compile:\n{complaint}")
            return spirv.portable(out.read_bytes())


def find(chosen: Settings | None = None) -> Compiler:
    """The compiler of VKBENCH_SLANGC, else of the PATH, else of slangtorch, else fetched by pip."""
    chosen = chosen or settings()
    if chosen.slangc:
        return _compiler(Path(chosen.slangc), "VKBENCH_SLANGC")
    on_path = _on_path()
    if on_path:
        return _compiler(on_path, "found")
    installed = _find_installed()
    if installed:
        return _with_library(_compiler(installed, "found"))
    return _with_library(_compiler(_fetch_compiler(chosen.cache), "fetched"))


def _with_library(slang: Compiler) -> Compiler:
    """A compiler of the wheel, with the library beside it if session.py knows its version."""
    library = slang.path.with_name(session.LIBRARY)
    known = slang.version == session.VERSION and library.is_file()
    return replace(slang, library=library) if known else slang


def _compiler(path: Path, how: str) -> Compiler:
    try:
        done = _run(path, "-v")
    except OSError as error:
        raise NoCompiler(
            f"{how}: {path} cannot be run: {error.strerror}; set VKBENCH_SLANGC to a slangc"
        ) from error
    version = (done.stdout + done.stderr).strip()
    if done.returncode or not version:
        raise NoCompiler(
            f"{how}: {path} -v fails: {version or done.returncode}; set VKBENCH_SLANGC to a slangc"
        )
    return Compiler(path=path, version=version.splitlines()[0])


def _run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(path), *arguments], capture_output=True, text=True, check=False)


def _on_path() -> Path | None:
    program = shutil.which("slangc")
    return Path(program) if program else None


def _find_installed() -> Path | None:
    """The binary in slangtorch's folder, found without importing slangtorch: it imports torch."""
    spec = importlib.util.find_spec("slangtorch")
    if not spec or not spec.origin:
        return None
    binary = Path(spec.origin).parent / "bin" / "slangc"
    return binary if binary.exists() else None


def _fetch_compiler(cache: Path) -> Path:
    folder = cache / f"slang-{WHEEL.partition('==')[2]}"
    binary = folder / "slangtorch" / "bin" / "slangc"
    if not binary.exists():  # there whole or not at all; a contained process may not lock
        with _hold_lock(cache / "slang.lock"):
            if not binary.exists():
                _fetch(folder)
    return binary


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        requirements = Path(scratch, "wanted.txt")
        requirements.write_text(" ".join((WHEEL, *(f"--hash=sha256:{sha}" for sha in HASHES))))
        pip = python(
            *("-m", "pip", "download", "--quiet", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "--dest", scratch),
        )
        done = subprocess.run(
            [*pip, "--requirement", str(requirements)], capture_output=True, text=True, check=False
        )
        wheel = next(Path(scratch).glob("slangtorch-*.whl"), None)
        if done.returncode or not wheel:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise NoCompiler(
                f"no Slang compiler here, and pip cannot fetch {WHEEL}: {' '.join(last.split())}; "
                "install slangc and set VKBENCH_SLANGC to its path"
            )
        unpacked = Path(scratch, "unpacked")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        for binary in (unpacked / "slangtorch" / "bin").iterdir():
            binary.chmod(0o755)
        unpacked.rename(folder)


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        system.lock(lock)
        yield
