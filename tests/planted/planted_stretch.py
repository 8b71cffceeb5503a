"""Bundles of what submissions launch (`launch_rate`, `overlap`), slower or wrong on purpose."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from planted_add import compiled
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile.tree import TREE, source_of

STORE = "y[push.first + at] = v;"

WRONG = "v ^= 1;"


def slow(turns: int) -> str:
    """It takes long, changes nothing, and no compiler can know."""
    return f"""
    uint turned = v;
    for (uint turn = 0; turn < {turns}; turn++) turned = turned * 3 + (turned >> 7);
    if (turned == 5) v = turned;
    """


@cache
def planted_stretch(body: str) -> Bundle:
    """The code of a stretch, with `body` run on each word `v` before it is stored."""
    with TemporaryDirectory(prefix="vkbench-") as folder:
        tree = Path(folder, "slang")
        shutil.copytree(TREE, tree)
        stretch = source_of("stretch", tree)
        source = stretch.read_text()
        assert STORE in source
        stretch.write_text(source.replace(STORE, f"{body}\n{STORE}"))
        posed = problem("launch_rate/u32/s1_n1")
        [variant] = posed.kernel.variants_for(posed.types)
        return compiled(tree, [variant], posed.types)
