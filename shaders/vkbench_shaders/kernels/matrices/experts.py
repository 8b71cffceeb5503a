"""What products with chosen experts share: tokens times the matrices that their ids name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders import formats
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Binding, Layout, Param, Problem, Shapes
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.shared import rows, sums
from vkbench_shaders.quantisers import quants
from vkbench_shaders.rounded_factors import Floats, Of

DIMS = ("e", "u", "m", "n", "k")  # experts, used by a token, rows of each, tokens, columns
PARAMS = {
    "layout": rows.LAYOUT,
    "x": Param(
        default="token",
        choices=("token", "expert"),
        description="whether a token has one vector, or one for each expert it uses",
    ),
    "routing": Param(
        default="even",
        choices=("even", "skewed"),
        description="experts by chance, or: expert 0 is used by all tokens, expert 1 by none",
    ),
}


def bindings(vectors: tuple[str, ...]) -> tuple[Binding, ...]:
    """Weights, x, y and ids."""
    return (
        declare_input(
            "weights", products.WEIGHTS, ("e", "m", "k"), "a matrix for each expert, row by row"
        ),
        declare_input("x", vectors, ("n", "k"), "vectors of the tokens, or n x u of them"),
        declare_output(
            "y", ("f32",), ("n", "u", "m"), "a product for each token and expert it uses"
        ),
        declare_input(
            "ids", ("i32",), ("n", "u"), "the experts that each token uses, no two alike"
        ),
    )


def is_single(problem: Problem) -> bool:
    """Whether all experts of a token multiply one vector."""
    return problem.params["x"] == "token"


def layout(problem: Problem, binding: str) -> Layout:
    """Where a binding lies; x has another dimension when each expert has its own vector."""
    if binding == "ids":
        return Layout.contiguous(problem.full_shape("ids"))
    if binding == "x" and not is_single(problem):
        n, width = problem.full_shape("x")
        shape = (n, problem.shape["u"], width)
        if problem.params["layout"] == "strided":
            return Layout.with_gaps(shape, *rows.gaps(problem, "x"))
        return Layout.contiguous(shape)
    return rows.layout(problem, binding)


def inputs(problem: Problem) -> dict[str, Array]:
    """Weights, vectors, and which experts each token uses."""
    return {**products.inputs(problem), "ids": _ids(problem)}


def _ids(problem: Problem) -> Array:
    ids = data.distinct(problem, "ids", problem.shape["e"])
    if problem.params["routing"] == "skewed" and problem.shape["e"] >= problem.shape["u"] + 2:
        others: Array = data.distinct(problem, "ids", problem.shape["e"] - 2) + ids.dtype.type(2)
        others[:, 0] = 0
        return others
    return ids


def _sums(problem: Problem, inputs: Arrays, rows: Array | None, of_weights: Of, of_x: Of) -> Floats:
    """Expert by expert: only the matrices that someone uses are decoded."""
    ids, x = inputs["ids"], of_x(products.exact_x(problem, inputs))
    kept = problem.shape["m"] if rows is None else len(rows)
    y = np.zeros((*ids.shape, kept))
    for expert in np.unique(ids):
        tokens, slots = np.nonzero(ids == expert)
        stored = inputs["weights"][expert] if rows is None else inputs["weights"][expert][rows]
        weights = of_weights(quants.dequantise(problem.types["weights"], stored))
        vectors = x[tokens] if is_single(problem) else x[tokens, slots]
        y[tokens, slots] = vectors @ weights.T
    return y


reference = sums.reference(_sums)
deviations = sums.deviations(_sums)


def flops(problem: Problem) -> int:
    """Operations for every token with every expert it uses."""
    return 2 * problem.shape["n"] * problem.shape["u"] * problem.shape["m"] * problem.shape["k"]


def bytes_moved(problem: Problem) -> int:
    """The matrices of the experts in use, once each, and all vectors."""
    shape = problem.shape
    used = min(shape["e"], shape["n"] * shape["u"])
    if problem.params["routing"] == "even" and shape["n"] > 1:
        used = len(np.unique(_ids(problem)))
    matrix = shape["m"] * problem.full_shape("weights")[-1] * problem.item_bytes("weights")
    others = sum(
        int(np.prod(problem.array_shape(name))) * problem.item_bytes(name)
        for name in ("x", "y", "ids")
    )
    return used * matrix + others


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the arrays' shapes."""
    if len(shapes["weights"]) != 3 or len(shapes["ids"]) != 2:
        raise UsageError("weights have three dimensions (experts, m, k), ids two (tokens, used)")
    e, m, width = shapes["weights"]
    n, u = shapes["ids"]
    if shapes["x"][0] != n:
        raise UsageError(f"x has {shapes['x'][0]} tokens, ids have {n}: they must be equal")
    fmt = formats.format_named(types["weights"])
    blocks, rest = divmod(width * fmt.dtype.itemsize, fmt.bytes)
    if rest:
        raise UsageError(
            f"weights have rows of {width} bytes; {fmt.name} comes in blocks of {fmt.bytes}"
        )
    return {"e": e, "u": u, "m": m, "n": n, "k": blocks * fmt.elements}
