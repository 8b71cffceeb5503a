"""Bundles of one kernel, `add` of f32, from a shader tree in which its sums are changed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from vkbench_shaders import compiler
from vkbench_shaders.build import TREE, tree_sha
from vkbench_shaders.bundle import Bundle, entry_key, manifest_text, packaged, unit_of
from vkbench_shaders.catalogue import kernel_named

TYPES = {"a": "f32", "b": "f32", "y": "f32"}
STORE = "store<Y>(push, share, y, wide_y, results);"

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
        (tree / "binary.slang").write_text(_edited((tree / "binary.slang").read_text(), body))
        return _compiled(tree)


def _edited(source: str, body: str) -> str:
    assert STORE in source
    function = f"float4 planted(uint first, float4 sum)\n{{\n{body}\nreturn sum;\n}}\n"
    place = "(share.first + k * share.step) * 4"
    changed = f"results.fours[k] = asuint(planted({place}, asfloat(results.fours[k])));"
    source = source.replace(STORE, f"[unroll] for (int k = 0; k < 4; k++) {changed}\n{STORE}")
    return source.replace('[shader("compute")]', f'{function}\n[shader("compute")]')


def _compiled(tree: Path) -> Bundle:
    slang = compiler.find()
    add = kernel_named("add").variant("portable")
    code = slang.compile(unit_of(add, TYPES), tree)
    sha = sha256(code).hexdigest()
    packaged_entry = packaged().entry(entry_key(add, TYPES))
    entry = replace(packaged_entry, sha256=sha, bytes=len(code))
    text = manifest_text(slang.version, tree_sha(tree), (entry,))
    return Bundle(text=text, blobs={sha: code}, name="planted").check()
