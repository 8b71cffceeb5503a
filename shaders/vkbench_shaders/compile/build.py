"""Building a bundle: the catalogue's units compiled from a shader tree, in parallel and cached.

    python -m vkbench_shaders.compile.build    compiles the packaged kernels

A wheel is built by this too, in an environment with little in it: nothing but numpy and msgspec is
needed here.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from vkbench.errors import VkbenchError
from vkbench.settings import settings
from vkbench_shaders.bundle import (
    PACKAGED,
    PROBES,
    Bundle,
    manifest_text,
    replace_file,
    unit_of,
)
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile import compiler, launches, reflection, spirv, workers
from vkbench_shaders.compile.compiler import Compiler, Unit
from vkbench_shaders.compile.entries import entry_of
from vkbench_shaders.compile.tree import (
    TREE,
    constants_of,
    sha_of,
    sources_by_module,
    sources_of,
    tree_sha,
)
from vkbench_shaders.kernel import Kernel, Problem

Progress = Callable[[int, int, str], None]  # units done, units in all, the last one's key


def build(
    tree: Path,
    out: Path,
    progress: Progress | None = None,
    slang: Compiler | None = None,
    kernels: Sequence[Kernel] | None = None,
    *,
    is_public: bool = False,
) -> Bundle:
    """Compile the units of kernels, or of all, from `tree`; write the bundle to the folder `out`.

    Nothing is written unless all units compile, and take what the catalogue's launches give.
    """
    wanted = KERNELS if kernels is None else kernels
    bundle = compiled(tree, sorted({*units_of(wanted), *PROBES}), out.name, progress, slang)
    launches.check(bundle, wanted)
    bundle.save(out, is_public=is_public)
    return bundle


def compiled(
    tree: Path,
    units: Sequence[Unit],
    name: str,
    progress: Progress | None = None,
    slang: Compiler | None = None,
) -> Bundle:
    """A bundle of some units of a shader tree, written nowhere."""
    slang = slang or compiler.find()
    codes = _compile_all(list(units), tree, slang, progress or _silent)
    modules = sources_by_module({unit.module for unit in units}, tree)
    declared = {module: constants_of(source, tree) for module, source in modules.items()}
    entries, interfaces, blobs = [], {}, {}
    for unit in units:
        code = spirv.nameless(codes[unit])
        needs = reflection.needs(codes[unit])
        entry, interface = entry_of(unit, code, needs, declared[unit.module])
        entries.append(entry)
        interfaces[entry.interface] = interface
        blobs[entry.sha256] = code
    text = manifest_text(slang.version, tree_sha(tree), entries, interfaces)
    return Bundle(text=text, blobs=blobs, name=name)


def units_for(problem: Problem) -> list[Unit]:
    """What the code paths of one case are made of."""
    return sorted(
        {
            unit_of(stage, problem.types)
            for variant in problem.kernel.variants_for(problem.types)
            for stage in variant.stages_for(problem.types)
        }
    )


def units_of(kernels: Iterable[Kernel]) -> list[Unit]:
    """Every different unit that some variant needs for some formats."""
    return sorted(
        {
            unit_of(stage, types)
            for kernel in kernels
            for types in kernel.type_choices()
            for variant in kernel.variants_for(types)
            for stage in variant.stages_for(types)
        }
    )


def _compile_all(
    units: list[Unit], tree: Path, slang: Compiler, progress: Progress
) -> dict[Unit, bytes]:
    kept = _places(units, tree, slang)
    codes = {unit: code for unit in units if (code := _kept(kept[unit]))}
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


def _kept(path: Path) -> bytes:
    """SPIR-V that the cache has; nothing where it has none, or a damaged file."""
    try:
        code = path.read_bytes()
    except FileNotFoundError:
        return b""
    return code if code[:4] == spirv.MAGIC.to_bytes(4, "little") else b""


def _silent(done: int, total: int, key: str) -> None:
    pass


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


def main() -> int:
    """Builds the packaged bundle."""
    try:
        bundle = build(TREE, PACKAGED, progress_bar(), is_public=True)
    except VkbenchError as error:
        print(f"vkbench: {error}", file=sys.stderr)
        return error.exit_code
    print(bundle.sha)
    return 0


if __name__ == "__main__":
    sys.exit(main())
