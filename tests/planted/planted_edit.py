"""Bundles of one kernel whose source has another expression in one place."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import NamedTuple

from planted_add import compiled
from vkbench.device import DeviceFacts
from vkbench_shaders.bundle import Bundle, packaged
from vkbench_shaders.compile.tree import TREE, source_of
from vkbench_worker.runner.variants import Choice


class Edit(NamedTuple):
    """What a source says, and what it says wrongly; the path's own module where none is named."""

    right: str
    wrong: str
    module: str = ""


def compile_edited_kernel(chosen: Choice, edit: Edit, facts: DeviceFacts) -> Bundle:
    """What a device launches for a case by a code path, from a tree with that one edit."""
    posed, variant = chosen.problem, chosen.variant
    with TemporaryDirectory(prefix="vkbench-") as folder:
        tree = Path(folder, "slang")
        copytree(TREE, tree)
        source = source_of(edit.module or variant.module, tree)
        text, right = source.read_text(), edit.right
        assert text.count(right) == 1, f"{source.name} has {text.count(right)} times: {right}"
        source.write_text(text.replace(right, edit.wrong))
        entries = {launch.entry: None for launch in variant.launches(posed, facts)}
        planted = compiled(tree, [variant.stage(entry) for entry in entries], posed.types)
    right_code = {packaged().entry(key).sha256 for key in planted.entries}
    assert planted.blobs.keys() - right_code, f"{posed.case.name} does not run {source.name}"
    return planted
