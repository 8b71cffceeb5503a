"""Kernels whose y is sums of products: their reference, and what rounding factors does to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vkbench_shaders.kernel import Array, Arrays, Deviations, Outputs, Problem
from vkbench_shaders.rounded_factors import Floats, Of, Rounding

# a kernel's sums on given inputs, each number of both factors replaced before
SumsOf = Callable[[Problem, Arrays, Array | None, Of, Of], Floats]


def reference(sums: SumsOf) -> Outputs:
    """The reference of a kernel with such sums."""

    def outputs(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        return {"y": sums(problem, inputs, rows, _as_they_are, _as_they_are)}

    return outputs


def deviations(sums: SumsOf) -> Deviations:
    """RMS errors of such sums where a path rounds their factors."""

    def outputs(
        problem: Problem, inputs: Arrays, rows: Array | None, rounding: Rounding
    ) -> dict[str, Array]:
        formats = (problem.types[binding.name] for binding in problem.kernel.bindings[:2])
        return {"y": rounding.deviations(partial(sums, problem, inputs, rows), *formats)}

    return outputs


def _as_they_are(values: Floats) -> Floats:
    return values
