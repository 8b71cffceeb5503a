"""Weights of a job that are a tensor of a file on this host."""

from __future__ import annotations

from pathlib import Path

from vkbench.case import WEIGHTS
from vkbench.errors import VkbenchError
from vkbench.job import Source
from vkbench_shaders.gguf_file import open_gguf, part_of, sha_of
from vkbench_shaders.kernel import Array, Problem


class WrongWeights(VkbenchError):
    """The file's tensor is not the one that the case names."""


def weights_of(problem: Problem, source: Source | None) -> Array:
    """The first binding's array, from the file; an error says why it cannot be had."""
    if not source:
        raise WrongWeights(f"{problem.case.name} names weights, and the job no file: give --gguf")
    file = open_gguf(Path(source.path))
    stored = file.read(source.tensor)
    sha, expected = sha_of(stored), problem.case.params[WEIGHTS]
    if sha != expected:
        raise WrongWeights(
            f"tensor {source.tensor} of {source.path} is another one on this host: "
            f"its SHA-256 begins with {sha}, not {expected}"
        )
    binding, form = problem.kernel.bindings[0].name, file.tensor(source.tensor).format
    if form != problem.format(binding):
        raise WrongWeights(f"tensor {source.tensor} is no {problem.case.format}")
    return part_of(stored, problem.array_shape(binding))
