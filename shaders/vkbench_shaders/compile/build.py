"""Building a bundle: the catalogue's units compiled from a shader tree, in parallel and cached.

    python -m vkbench_shaders.compile.build            compiles the packaged kernels
    python -m vkbench_shaders.compile.build --begin    leaves most of them to their first need

A wheel is built by this too, in an environment with little in it: nothing but numpy and msgspec is
needed here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from vkbench.errors import VkbenchError
from vkbench_shaders.bundle import (
    PACKAGED,
    PROBES,
    Bundle,
    manifest_text,
    unit_of,
)
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile import compiler, launches, reflection, spirv
from vkbench_shaders.compile.cached import Progress, compile_cached, progress_bar, report_nothing
from vkbench_shaders.compile.compiler import Compiler, Unit
from vkbench_shaders.compile.entries import entry_of
from vkbench_shaders.compile.first_need import read_expected
from vkbench_shaders.compile.tree import (
    TREE,
    constants_of,
    sources_by_module,
    tree_sha,
)
from vkbench_shaders.kernel import Kernel, Problem


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
    to_compile = KERNELS if kernels is None else kernels
    bundle = compile_units(
        tree, sorted({*units_of(to_compile), *PROBES}), out.name, progress, slang
    )
    launches.check(bundle, to_compile)
    bundle.save(out, is_public=is_public)
    return bundle


def begin(
    tree: Path, out: Path, progress: Progress | None = None, text: str | None = None
) -> Bundle:
    """Write the packaged bundle with all its entries, and compile little of it: what probes a GPU.

    That takes the manifest that these sources compile to. Where none is kept, or it is another
    one's, or the probes are not what it says, all units are compiled.
    """
    slang = compiler.find()
    expected = Bundle(text=read_expected() if text is None else text, blobs={}, name=out.name)
    if not _is_of(expected, tree, slang):
        return build(tree, out, progress, slang, is_public=True)
    probes = compile_units(tree, sorted(PROBES), out.name, slang=slang)
    if any(expected.entries[key] != entry for key, entry in probes.entries.items()):
        return build(tree, out, progress, slang, is_public=True)
    begun = replace(expected, blobs=probes.blobs)
    begun.save(out, is_public=True)
    return begun


def _is_of(expected: Bundle, tree: Path, slang: Compiler) -> bool:
    """Whether a manifest is what these sources, this catalogue and this compiler give."""
    if not expected.text:
        return False
    manifest = expected.manifest
    units = {unit.key for unit in (*units_of(KERNELS), *PROBES)}
    made_from = manifest.tree, manifest.slang, set(expected.entries)
    return made_from == (tree_sha(tree), slang.version, units)


def compile_units(
    tree: Path,
    units: Sequence[Unit],
    name: str,
    progress: Progress | None = None,
    slang: Compiler | None = None,
) -> Bundle:
    """A bundle of some units of a shader tree, written nowhere."""
    slang = slang or compiler.find()
    codes = compile_cached(units, tree, slang, progress or report_nothing)
    modules = sources_by_module({unit.module for unit in units}, tree)
    declared = {module: constants_of(source, tree) for module, source in modules.items()}
    entries, interfaces, blobs = [], {}, {}
    for unit in units:
        code = spirv.strip_names(codes[unit])
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


def main(*arguments: str) -> int:
    """Builds the packaged bundle; begins it with --begin."""
    try:
        if "--begin" in arguments:
            bundle = begin(TREE, PACKAGED, progress_bar())
        else:
            bundle = build(TREE, PACKAGED, progress_bar(), is_public=True)
    except VkbenchError as error:
        print(f"vkbench: {error}", file=sys.stderr)
        return error.exit_code
    print(bundle.sha)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
