"""Own cases of ggml-vulkan: what ggml's CPU backend of the same build computes is the reference.

Inputs, guard bands, poison, limits and timing are those of cases of the catalogue. Only the float64
reference is missing: the CPU backend computes in singles, where it can by its plainest code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from vkbench.case import parse
from vkbench.programs.program import GGML_VULKAN
from vkbench.result import Result
from vkbench_shaders.kernel import Array, Arrays, Problem
from vkbench_shaders.quantisers import quants
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.api import PEER
from vkbench_worker.peers.llama_cpp.arrays import GgmlMemory
from vkbench_worker.peers.llama_cpp.ggml_library import GgmlLibrary
from vkbench_worker.peers.llama_cpp.operations.own import OPERATIONS

JUDGE = f"{PEER}'s CPU backend"
SAID = f"judged by {JUDGE} of the same build"


def pose(library: GgmlLibrary, name: str) -> Problem:
    """The problem of a case, whose reference the CPU backend of the build computes."""
    parsed = parse(name.partition(":")[2])
    operation = OPERATIONS.get(parsed.kernel)
    if operation is None:
        raise CannotDo(f"{PEER} is asked for no {parsed.kernel} here")
    reference = partial(compute_reference, library.on_processor())
    kernel = operation.make_kernel(f"{GGML_VULKAN.name}:{parsed.kernel}", reference)
    return Problem(kernel, kernel.case({kernel.bindings[0].name: parsed.format}, parsed.shape))


def tell_judge(result: Result, library: GgmlLibrary) -> Result:
    """A result that says who judged it, if it was judged."""
    if not (verdict := result.verdict):
        return result
    settings = f"{result.settings},judge={library.on_processor().build}"
    if not verdict.passed:
        reason = f"{verdict.reason} ({SAID})"
        judged = replace(verdict, reason=reason)
        return replace(result, settings=settings, reason=reason, verdict=judged)
    timings = [replace(timing, warnings=(*timing.warnings, SAID)) for timing in result.timings]
    return replace(result, settings=settings, timings=tuple(timings))


def compute_reference(
    judge: GgmlLibrary, problem: Problem, inputs: Arrays, rows: Array | None
) -> dict[str, Array]:
    """What the CPU backend makes of inputs."""
    memories: dict[str, GgmlMemory] = {}
    for binding in problem.kernel.bindings:
        layout, fmt = problem.layout(binding.name), problem.format(binding.name)
        memory = judge.memory(layout.storage * fmt.dtype.itemsize)
        if binding.is_input:
            judge.write(memory, 0, np.ascontiguousarray(inputs[binding.name]))
        memories[binding.name] = memory
    row = judge.rows[problem.kernel.name]
    views = {
        name: judge.view(memory, 0, problem.format(name), problem.layout(name))
        for name, memory in memories.items()
    }
    judge.bind(row.function, row.arguments(problem, views))()
    fmt, shape = problem.format("y"), problem.array_shape("y")
    stored = judge.read(memories["y"], 0, problem.layout("y").storage * fmt.dtype.itemsize)
    return {"y": _widen(problem, stored.view(fmt.dtype).reshape(shape), inputs, row.order)}


def _widen(
    problem: Problem, y: Array, inputs: Arrays, order: Mapping[str, Callable[..., Array]]
) -> Array:
    """A result as references are: in our order, and floating point numbers as float64."""
    if "y" in order:
        y = order["y"](problem, y, inputs.__getitem__)
    return y if y.dtype.kind == "i" else quants.dequantise(problem.types["y"], y)
