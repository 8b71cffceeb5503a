"""Compiles the code of one case from a git revision of a shader tree."""

from __future__ import annotations

from pathlib import Path

from vkbench.process.git import Revision, checked_out
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.compile.build import compile_units, units_for
from vkbench_shaders.kernel import Problem

FOLDER = "shaders/vkbench_shaders/slang"  # of this project's repository


def build_revision(repository: Path, revision: Revision, folder: str, problem: Problem) -> Bundle:
    """A bundle of one case's code at a revision; VkbenchError if it does not compile."""
    with checked_out(repository, revision, folder) as tree:
        return compile_units(tree, units_for(problem), revision.label)
