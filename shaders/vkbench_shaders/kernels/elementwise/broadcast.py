"""Two arrays of which the second may be repeated to the shape of the first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Layout, Param, Problem, Shapes
from vkbench_shaders.kernels.elementwise import strided

# which dimensions an array has; it is repeated along the others
KEPT = {"none": "bchw", "scalar": "", "row": "w", "channel": "c", "batch": "chw"}


def param(of: str) -> Param:
    """How an array is repeated."""
    return Param(
        default="none",
        choices=tuple(KEPT),
        description=f"what {of} is: like a, a number, a row, a number a channel, one of the batch",
    )


def layout(problem: Problem, binding: str, repeated: Mapping[str, str]) -> Layout:
    """Where an array lies; `repeated` says by which parameter a binding is."""
    full = problem.full_shape(binding)
    if binding in repeated:
        kept = KEPT[str(problem.params[repeated[binding]])]
        full = tuple(
            size if dim in kept else min(size, 1)
            for dim, size in zip(strided.DIMS, full, strict=True)
        )
    return strided.lay_out_array(problem, binding, full)


def place(layout: Layout) -> dict[str, int]:
    """A shader's Place, with strides of 0 along what an array is repeated over."""
    steps = (step * (size != 1) for step, size in zip(layout.strides, layout.shape, strict=True))
    return {**dict(zip(strided.DIMS, steps, strict=True)), "offset": layout.offset}


def pair(problem: Problem) -> dict[str, Array]:
    """Arrays a and b: with special values, each one of a's meets each one of b's."""
    if problem.params["values"] == "noise":
        return {name: data.values(problem, name) for name in "ab"}
    odd = {name: data.odd_values(problem.types[name]) for name in "ab"}
    slow, fast = odd["a"].repeat(len(odd["b"])), odd["b"]
    return {
        name: np.resize(values, problem.array_shape(name))
        for name, values in (("a", slow), ("b", fast))
    }


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """a has the shape of the result; that of others must fit their parameter."""
    if len(shapes["a"]) != 4:
        raise UsageError(f"a has four dimensions (b, c, h, w), got {len(shapes['a'])}")
    return dict(zip(strided.DIMS, shapes["a"], strict=True))
