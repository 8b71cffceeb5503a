"""Bundles of one kernel whose source has another expression in one place."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

from planted_add import compiled
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile.tree import TREE, source_of


def compile_edited_kernel(case: str, variant: str, right: str, wrong: str) -> Bundle:
    """The kernel of a case by one variant, with `wrong` in place of `right` in its module."""
    posed = problem(case)
    chosen = posed.kernel.variant(variant)
    with TemporaryDirectory(prefix="vkbench-") as folder:
        tree = Path(folder, "slang")
        copytree(TREE, tree)
        source = source_of(chosen.module, tree)
        text = source.read_text()
        assert text.count(right) == 1, f"{source.name} has {text.count(right)} times: {right}"
        source.write_text(text.replace(right, wrong))
        return compiled(tree, chosen, posed.types)
