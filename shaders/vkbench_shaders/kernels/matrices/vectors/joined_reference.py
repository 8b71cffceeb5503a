"""Inputs and references of products that are fused with a norm or a gated linear unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Layout, Problem, Shapes
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.matrices.vectors.teams import run
from vkbench_shaders.kernels.shared.gates import Gate, values
from vkbench_shaders.quantisers import quants
from vkbench_shaders.rounded_factors import Floats

_AT_A_TIME: Final = 512  # rows that the reference multiplies
_SPREAD: Final = (0.25, 2.0)  # squares of numbers
# what random products are about, over the root of k: gates of larger ones pass all or nothing, and
# their products leave one number of a block
_LIKELY: Final = 8.0


def layout(halves: int, problem: Problem, binding: str) -> Layout:
    """Sums of squares are one a run, and gates have their rows before those they pass."""
    shape = problem.full_shape(binding)
    if binding == "squares":
        numbers = problem.shape[problem.kernel.binding(binding).dims[1]]
        shape = (shape[0], -(-numbers // run(problem)))
    if binding == "weights":
        shape = (shape[0] * halves, shape[1])
    return Layout.contiguous(shape)


def infer(halves: int, shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes, where weights have so many rows for each row of y."""
    sizes = products.infer(shapes, types)
    if sizes["m"] % halves:
        raise UsageError(f"weights have two halves of rows, got {sizes['m']} rows")
    return {**sizes, "m": sizes["m"] // halves}


def inputs(problem: Problem) -> dict[str, Array]:
    """Weights and vectors, and what else a kernel reads."""
    arrays = products.inputs(problem)
    for binding in problem.kernel.bindings[2:]:
        if not binding.is_input:
            continue
        if binding.name == "squares":
            low, high = (of_one * run(problem) for of_one in _SPREAD)
            arrays[binding.name] = data.uniform(problem, binding.name, low, high)
        elif binding.name == "factors":
            arrays[binding.name] = data.uniform(problem, binding.name, -2, 2)
        else:
            arrays[binding.name] = data.activations(problem, binding.name).astype(np.float32)
    return arrays


def gated_inputs(problem: Problem) -> dict[str, Array]:
    """Such that products are about 2, by the norm, else by smaller vectors."""
    arrays, k = inputs(problem), problem.shape["k"]
    if problem.params["norm"] == "rms":
        arrays["squares"] *= np.float32(_LIKELY**2 * k)
    else:
        smaller = 2.0 ** -round(np.log2(_LIKELY * np.sqrt(k)))
        exact = products.exact_x(problem, arrays) * smaller
        arrays["x"] = quants.quantise(problem.types["x"], exact)
    return arrays


def rms(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Products over the root mean square of what x was."""
    return {"y": _over_rms(problem, inputs, rows)}


def gate_products(
    gate: Gate, problem: Problem, inputs: Arrays, rows: Array | None
) -> dict[str, Array]:
    """A gated linear unit of the halves of products."""
    of = _over_rms if problem.params["norm"] == "rms" else _products
    gates, passed = np.split(of(problem, inputs, rows), 2, axis=1)
    with np.errstate(over="ignore"):  # of exp, where a gate passes nothing
        return {"y": gate.function(gates, passed, *values(gate, problem))}


def add_products(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Products added to a residual, that sum times factors, and its squares."""
    total = inputs["residual"].astype(np.float64) + _products(problem, inputs, rows)
    firsts = np.arange(0, total.shape[1], run(problem))
    squares = np.add.reduceat(np.square(total), firsts, axis=1)
    return {"y": total * inputs["factors"].astype(np.float64), "sum": total, "squares": squares}


def _products(problem: Problem, inputs: Arrays, rows: Array | None) -> Floats:
    """W x, some rows of weights at a time."""
    x = products.exact_x(problem, inputs)
    chosen = np.arange(len(inputs["weights"])) if rows is None else rows
    parts = [chosen[at : at + _AT_A_TIME] for at in range(0, len(chosen), _AT_A_TIME)]
    return np.concatenate(
        [x @ products.exact_weights(problem, inputs, part).T for part in parts], axis=1
    )


def _over_rms(problem: Problem, inputs: Arrays, rows: Array | None) -> Floats:
    mean = inputs["squares"].astype(np.float64).sum(axis=1, keepdims=True) / problem.shape["k"]
    eps = float(np.float32(problem.params["eps"]))
    return np.asarray(_products(problem, inputs, rows) / np.sqrt(mean + eps))
