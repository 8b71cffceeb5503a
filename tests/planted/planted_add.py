"""Bundles of one kernel, `add` of f32, from a shader tree in which its sums are changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from vkbench_shaders.bundle import Bundle, entry_key, manifest_text, packaged, unit_of
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.compile import compiler, spirv
from vkbench_shaders.compile.tree import TREE, source_of, tree_sha
from vkbench_shaders.kernel import Stage, Variant

TYPES = {"a": "f32", "b": "f32", "y": "f32"}
STORE = "store<Y>(push, own, y, wide_y, results);"

# It takes long, changes nothing, and no compiler can know.
SLOW = """
float turned = sum.x;
for (int turn = 0; turn < 50; turn++) turned = cos(turned);
if (turned == 5) sum.x = turned;
"""


@cache
def planted_add(body: str) -> Bundle:
    """`add`, with `body` run on every four sums before they are stored; `first` is their place."""
    with TemporaryDirectory(prefix="vkbench-") as folder:
        tree = Path(folder, "slang")
        shutil.copytree(TREE, tree)
        binary = source_of("binary", tree)
        binary.write_text(_edited(binary.read_text(), body))
        return compiled(tree, [kernel_named("add").variant("portable")], TYPES)


@cache
def packaged_but_add(body: str) -> Bundle:
    """The packaged kernels, but for `add` of f32, which is `planted_add`'s."""
    whole, planted = packaged(), planted_add(body)
    entries = tuple({**whole.entries, **planted.entries}.values())
    manifest = planted.manifest
    text = manifest_text(manifest.slang, manifest.tree, entries, whole.manifest.interfaces)
    return Bundle(text=text, blobs={**whole.blobs, **planted.blobs}, name="planted")


def _edited(source: str, body: str) -> str:
    assert STORE in source
    function = f"float4 planted(uint first, float4 sum)\n{{\n{body}\nreturn sum;\n}}\n"
    place = "(own.first + k * own.step) * 4"
    changed = f"results.vec4s[k] = asuint(planted({place}, asfloat(results.vec4s[k])));"
    source = source.replace(STORE, f"[unroll] for (int k = 0; k < 4; k++) {changed}\n{STORE}")
    return source.replace('[shader("compute")]', f'{function}\n[shader("compute")]')


def compiled(tree: Path, stages: Iterable[Stage | Variant], types: Mapping[str, str]) -> Bundle:
    """A bundle of one kernel's stages for one set of types, from a shader tree."""
    slang, whole = compiler.find(), packaged()
    entries, blobs = [], {}
    for stage in stages:
        code = spirv.strip_names(slang.compile(unit_of(stage, types), tree))
        sha = sha256(code).hexdigest()
        entries.append(replace(whole.entry(entry_key(stage, types)), sha256=sha, bytes=len(code)))
        blobs[sha] = code
    text = manifest_text(slang.version, tree_sha(tree), entries, whole.manifest.interfaces)
    return Bundle(text=text, blobs=blobs, name="planted").check()
