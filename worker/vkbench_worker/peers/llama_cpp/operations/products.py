"""Rows of products of matrices, of experts', and of attention.

Limits are those of the arithmetic that ggml documents or its shaders have, on any device: products
of matrices of floats round factors to f16 and may be summed in f16; where weights have blocks, x
may be rounded to bytes (q8_1) besides. Vectors (up to eight) are summed in singles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Final

import numpy as np

from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.kernels.rowwise.hadamard import add_and_subtract
from vkbench_worker.peers.library import Row, Views
from vkbench_worker.peers.llama_cpp.operations.arguments import numbers_of, of_arrays, view_if

_VECTORS: Final = ("f32", "f16")
_MOST_VECTORS: Final = 8  # more of them are a matrix, to ggml, and two of a batch
_BATCHES: Final = frozenset({"batch2", "batch3", "repeat2", "repeat3"})


def _experts(problem: Problem, views: Views) -> tuple[object, ...]:
    x = views["x"]
    if problem.params["x"] == "token":  # all experts of a token read the same row
        x = x.reshape(problem.shape["n"], 1, problem.shape["k"])
    return views["weights"], x, views["ids"], views["y"]


def _experts_and(problem: Problem, views: Views) -> tuple[object, ...]:
    """What experts make, and biases and shares where they follow."""
    *given, y = _experts(problem, views)
    shares = view_if(problem, views, "shares")
    if shares is not None:
        shares = shares.reshape(*shares.shape, 1)
    return *given, view_if(problem, views, "biases"), shares, y


def _hadamard(problem: Problem, views: Views) -> tuple[object, ...]:
    k = problem.shape["k"]
    return views["x"], add_and_subtract(np.eye(k)) / sqrt(k), views["y"]


def _attention(problem: Problem, views: Views) -> tuple[object, ...]:
    scale, cap, bias = numbers_of(problem, "scale", "softcap", "max_bias")
    mask, sinks = (view_if(problem, views, name) for name in ("mask", "sinks"))
    numbers = (scale or 1 / sqrt(problem.shape["d"]), bias if mask is not None else 0.0, cap)
    y = views["y"]
    if problem.params["layout"] == "cache":  # where heads lie beside each other as ggml has them
        y = y.permute((0, 2, 1, 3))
    return views["q"], views["k"], views["v"], mask, sinks, numbers, y


def _heads_apart(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """ggml has the heads of a query beside each other, and we the queries of a head.

    Of queries that see nothing ggml may make NaN, and we make zeros.
    """
    s, h, q, e = y.shape
    ours = y
    if problem.params["layout"] != "cache":
        ours = y.reshape(s, q, h, e).transpose(0, 2, 1, 3)
    if problem.params["mask"] == "none" or problem.params["sinks"] != "no":
        return ours
    hidden = np.isneginf(given("mask")).all(axis=-1, keepdims=True)
    return np.where(hidden & np.isnan(ours), np.zeros(1, y.dtype), ours)


def _of_numbers(problem: Problem) -> str:
    return "" if problem.types["x"] in _VECTORS else f"of x in {problem.types['x']}"


def _product_path(problem: Problem) -> str:
    """The arithmetic of a product, by whether x may become bytes and sums may be in halves."""
    has_blocks = problem.format("weights").quantised
    is_batch = any(problem.params.get(name, 1) != 1 for name in _BATCHES)
    if problem.shape["n"] <= (1 if is_batch else _MOST_VECTORS):
        return "ggml_vectors" if has_blocks else "library_sums"
    return "ggml_blocks" if has_blocks else "f16_accumulation"


def _outer_product(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["b"], views["a"], views["y"]  # ggml's rows are those of its second matrix


def _solve_left(problem: Problem, views: Views) -> tuple[object, ...]:
    """Lower triangular matrices stand on the left, and their diagonals need not be 1."""
    return views["a"], views["x"], True, True, False, views["y"]


_MUL_MAT: Final = Row(
    function="mul_mat",
    arguments=of_arrays("weights", "x"),
    fits=_of_numbers,
    path=_product_path,
)
_MUL_MAT_ID: Final = Row(
    function="mul_mat_id",
    arguments=_experts,
    params=frozenset({"x"}),
    fits=_of_numbers,
    path=_product_path,
)
_FLASH_ATTN: Final = Row(
    function="attention",
    arguments=_attention,
    params=frozenset({"scale", "mask", "sinks", "softcap", "max_bias"}),
    path="library_attention",
    order={"y": _heads_apart},
)

ROWS: Final[Mapping[str, Row]] = {
    "mul_mat": replace(_MUL_MAT, params=_BATCHES),
    "mul_mat_vec": _MUL_MAT,
    "mul_mat_id": _MUL_MAT_ID,
    "mul_mat_vec_id": replace(
        _MUL_MAT_ID,
        function="multiply_experts",
        arguments=_experts_and,
        params=frozenset({"x", "then"}),
    ),
    "hadamard": Row(function="multiply_hadamard", arguments=_hadamard, path="f16_accumulation"),
    "out_prod": Row(function="out_prod", arguments=_outer_product, path="library_sums"),
    "solve_tri": Row(function="solve_tri", arguments=_solve_left, path="library_sums"),
    "flash_attn": _FLASH_ATTN,
    "sdpa": _FLASH_ATTN,
}
