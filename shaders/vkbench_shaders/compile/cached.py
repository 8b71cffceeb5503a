"""Compiles units of a shader tree, and keeps the code of each one in the cache of this machine."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from vkbench.process.plain_file import replace_file
from vkbench.settings import settings
from vkbench_shaders.compile import compiler, spirv, workers
from vkbench_shaders.compile.compiler import Compiler, Unit
from vkbench_shaders.compile.tree import sha_of, sources_by_module, sources_of

Progress = Callable[[int, int, str], None]  # units done, units in all, the last one's key


def report_nothing(done: int, total: int, key: str) -> None:
    """Tell nothing of a compilation's progress."""


def progress_bar() -> Progress:
    """Progress on stderr: a bar on a terminal, one line at the end otherwise."""
    return _bar if sys.stderr.isatty() else _last_line


def _bar(done: int, total: int, key: str) -> None:
    """Overwrites the line above, so that an error message always begins on a fresh one."""
    again = "\x1b[1A\x1b[2K" if done > 1 else ""
    filled = 30 * done // total
    print(f"{again}compiling kernels [{'#' * filled:30}] {done}/{total}", file=sys.stderr)


def _last_line(done: int, total: int, key: str) -> None:
    if done == total:
        print(f"compiled {total} kernels", file=sys.stderr)


def compile_cached(
    units: Sequence[Unit], tree: Path, slang: Compiler, progress: Progress
) -> dict[Unit, bytes]:
    """SPIR-V of each unit, from the cache if it has it; CompileError names one that has none."""
    kept = _places(units, tree, slang)
    codes = {unit: code for unit in units if (code := _read_kept_code(kept[unit]))}
    for done, unit in enumerate(codes, 1):
        progress(done, len(units), unit.key)
    missing = [unit for unit in units if unit not in codes]
    with closing(workers.compile_all(slang, missing, tree)) as compiled:
        for unit, code in compiled:
            replace_file(kept[unit], code)
            codes[unit] = code
            progress(len(codes), len(units), unit.key)
    return codes


def _places(units: Iterable[Unit], tree: Path, slang: Compiler) -> dict[Unit, Path]:
    """Where the cache keeps each unit's SPIR-V: by sources, flags and compiler."""
    cache = settings().cache / "spirv"
    cache.mkdir(0o700, parents=True, exist_ok=True)
    modules = sources_by_module({unit.module for unit in units}, tree)
    sources = {name: sha_of(sources_of(path, tree), tree) for name, path in modules.items()}

    def place(unit: Unit) -> Path:
        made_from = (sources[unit.module], unit.key, slang.version, compiler.FLAGS)
        return cache / f"{hashlib.sha256(repr(made_from).encode()).hexdigest()}.spv"

    return {unit: place(unit) for unit in units}


def _read_kept_code(path: Path) -> bytes:
    """SPIR-V that the cache has; nothing where it has none, or a damaged file."""
    try:
        code = path.read_bytes()
    except FileNotFoundError:
        return b""
    return code if code[:4] == spirv.MAGIC.to_bytes(4, "little") else b""
