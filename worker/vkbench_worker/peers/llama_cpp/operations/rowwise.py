"""Rows of what is done to rows: norms, softmax, sums, orders and rotary positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, Final

import numpy as np

from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.kernels.reductions.sort import order_of
from vkbench_shaders.kernels.rowwise.rope import turning
from vkbench_worker.peers.library import Row, Views
from vkbench_worker.peers.llama_cpp.operations.arguments import (
    numbers_of,
    of_arrays,
    view_if,
    with_numbers,
)

_MODES: Final = {"norm": 0, "neox": 2, "mrope": 8, "imrope": 40, "vision": 24}  # ggml's
_TURNS: Final = ("freq_base", "freq_scale", "ext_factor", "attn_factor", "beta_fast", "beta_slow")
_AXES: Final = frozenset({"axes"})


def _rope(end: str, x: str, y: str, problem: Problem, views: Views) -> tuple[object, ...]:
    turn = turning(problem)
    return (
        *(end, views[x], views["positions"], view_if(problem, views, "factors")),
        *(turn.dims, turn.sections, _MODES[str(problem.params["mode"])]),
        *(int(problem.params["n_ctx_orig"]), numbers_of(problem, *_TURNS), views[y]),
    )


def _norm_rope(problem: Problem, views: Views) -> tuple[object, ...]:
    _, x, *turning = _rope("", "x", "y", problem, views)
    return x, float(problem.params["eps"]), views["weights"], tuple(turning), views["y"]


def _turn_into_rows(problem: Problem, views: Views) -> tuple[object, ...]:
    _, x, *turning = _rope("", "x", "y", problem, views)
    norm = ((float(problem.params["eps"]),), views["weights"]) if "weights" in views else None
    return x, norm, tuple(turning[:-1]), views["ids"], views["y"]


def _rope_fits(problem: Problem) -> str:
    turn = turning(problem)
    if problem.params["mode"] == "vision" and turn.pairs > sum(turn.sections[:2]):
        return "by more than two positions with mode=vision"
    return "of several sequences" if problem.shape["b"] > 1 else ""


def _turns_into_rows(problem: Problem) -> str:
    if problem.types["ids"] != "i64":
        return "in one launch by ids of 32 bits"
    return _rope_fits(problem)


def _softmax(problem: Problem, views: Views) -> tuple[object, ...]:
    mask, [scale, bias] = view_if(problem, views, "mask"), numbers_of(problem, "scale", "max_bias")
    if mask is None:
        bias = 0.0  # it multiplies the mask
    else:
        matrices, rows, columns = mask.shape
        mask = mask.reshape(matrices, 1, rows, columns)
    return views["x"], mask, view_if(problem, views, "sinks"), scale, bias, views["y"]


def _nothing_seen(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Zeros where a mask hides a whole row, of which ggml may make NaN."""
    if problem.params["mask"] == "none" or problem.params["sinks"] != "none":
        return y
    hidden = np.expand_dims(np.isneginf(given("mask")).all(axis=-1, keepdims=True), 1)
    return np.where(hidden & np.isnan(y), np.zeros(1, y.dtype), y)


def _norm(*params: str) -> Callable[[Problem, Views], tuple[object, ...]]:
    def arguments(problem: Problem, views: Views) -> tuple[object, ...]:
        fused = str(problem.params["fused"])
        weights = [
            _beside(problem, views[name]) if is_there else None
            for name, is_there in (("weights", fused != "none"), ("biases", fused == "mul_add"))
        ]
        return views["x"], _numbers(problem, params), *weights, views["y"]

    return arguments


def _numbers(problem: Problem, params: tuple[str, ...]) -> tuple[float | int, ...]:
    return tuple(
        int(problem.params[name]) if name == "groups" else float(problem.params[name])
        for name in params
    )


def _beside(problem: Problem, weights: Any) -> Any:
    """Weights of channels, where each has one of its own."""
    if weights.shape == (problem.shape["w"],) and "groups" not in problem.params:
        return weights
    return weights.reshape(*weights.shape, 1, 1)


def _add_norm(problem: Problem, views: Views) -> tuple[object, ...]:
    x, *rest, y = _norm("eps")(problem, views)
    return x, views["residual"], *rest, views["sum"], y


def _one_matrix(problem: Problem) -> str:
    return "of several matrices" if problem.shape["b"] * problem.shape["c"] > 1 else ""


def _of_rows(problem: Problem) -> str:
    axes = str(problem.params["axes"])
    return f"along {axes}" if axes != "w" else ""


def _argsort(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], int(problem.params["order"] == "descending"), views["y"]


def _route(problem: Problem, views: Views) -> tuple[object, ...]:
    """What follows of weights: their sum, or softmax of those chosen, and a factor."""
    gating, scale = str(problem.params["gating"]), float(problem.params["scale"])
    then: list[tuple[str, tuple[float, ...]]] = []
    if gating == "softmax_late":
        then.append(("soft_max_ext", (1.0, 0.0)))
    elif problem.params["normalise"] == "selected":
        then.append(("div", (float(problem.params["least_sum"]), inf)))
    if scale != 1:
        then.append(("scale", (scale,)))
    bias = view_if(problem, views, "bias")
    return views["logits"], bias, gating, tuple(then), views["ids"], views["weights"]


def _ties_in_order(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """ggml leaves equal numbers in any order, and we in that of their places.

    On devices that have zeros for numbers below the least normal one, all of these are equal.
    """
    if not ((y >= 0) & (y < y.shape[-1])).all():
        return y  # it is wrong anyway
    values = np.take_along_axis(given("x"), y, axis=-1)
    near = np.where(np.abs(values) < np.finfo(np.float32).tiny, 0, values)
    runs = np.zeros(y.shape, np.int64)
    runs[..., 1:] = np.cumsum(near[..., 1:] != near[..., :-1], axis=-1)
    rising = values if problem.params["order"] == "ascending" else -values
    return np.take_along_axis(y, np.lexsort((y, rising, runs), axis=-1), axis=-1)


def _experts_in_order(problem: Problem, ids: Array, given: Callable[[str], Array]) -> Array:
    """ggml sorts the gates of softmax, and we logits, which differ where gates are alike."""
    experts, gating = problem.shape["e"], problem.params["gating"]
    ranked = np.sort(ids, axis=1)
    is_set = (ranked >= 0) & (ranked < experts)
    is_set[:, 1:] &= ranked[:, 1:] != ranked[:, :-1]
    if gating != "softmax" or not is_set.all():
        return ids
    logits = given("logits").astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    gates = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    gates[gates < np.finfo(np.float32).tiny] = 0
    ours = order_of(logits, descending=True)[:, : ids.shape[1]]
    theirs = np.take_along_axis(gates, ids, axis=1)
    return np.where(theirs == np.take_along_axis(gates, ours, axis=1), ours, ids)


def _first_of_equal(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Of equal numbers ggml finds any, and we the first."""
    x = given("x")
    if not ((y >= 0) & (y < x.shape[-1])).all():
        return y  # it is wrong anyway
    alike = x == np.take_along_axis(x, y, axis=-1)
    first = np.argmax(alike, axis=-1, keepdims=True)
    return np.where(alike.any(axis=-1, keepdims=True), first, y).astype(y.dtype)


def _index_positions(problem: Problem, views: Views) -> tuple[object, ...]:
    """Scores of positions; what heads share has one of them."""
    s, t, h, n, _ = problem.shape.values()
    key = views["k"].shape[-1]  # items
    shapes = {"k": (s, n, 1, key), "weights": (s, 1, t, h), "mask": (s, 1, t, n), "y": (s, 1, t, n)}
    return views["q"], *(views[name].reshape(*shape) for name, shape in shapes.items())


def _hc_post(problem: Problem, views: Views) -> tuple[object, ...]:
    given = (views[name] for name in ("x", "residual", "post"))
    return *given, view_if(problem, views, "comb"), views["y"]


_NORMED: Final = frozenset({"eps", "fused"})
_ROPE: Final = frozenset({"mode", "n_dims", "n_ctx_orig", "factors", "sections", *_TURNS})

ROWS: Final[Mapping[str, Row]] = {
    "sum": Row(
        function="sum_rows",
        arguments=of_arrays("x"),
        params=_AXES,
        fits=_of_rows,
        path="library_sums",
    ),
    "mean": Row(
        function="mean", arguments=of_arrays("x"), params=_AXES, fits=_of_rows, path="library_sums"
    ),
    "argmax": Row(
        function="argmax",
        arguments=of_arrays("x"),
        params=_AXES,
        fits=lambda problem: _of_rows(problem) or _one_matrix(problem),
        order={"y": _first_of_equal},
    ),
    "count_equal": Row(function="count_equal", arguments=of_arrays("a", "b")),
    "cumsum": Row(function="cumsum", arguments=of_arrays("x")),
    "argsort": Row(
        function="argsort",
        arguments=_argsort,
        params=frozenset({"order"}),
        order={"y": _ties_in_order},
    ),
    "top_k_moe": Row(
        function="route_tokens",
        arguments=_route,
        params=frozenset({"gating", "normalise", "least_sum", "scale"}),
        order={"ids": _experts_in_order},
    ),
    "softmax": Row(
        function="soft_max",
        arguments=_softmax,
        params=frozenset({"scale", "mask", "max_bias", "sinks"}),
        order={"y": _nothing_seen},
    ),
    "softmax_back": Row(
        function="soft_max_back",
        arguments=with_numbers("scale", of=("dy", "y"), to="dx"),
        params=frozenset({"scale"}),
    ),
    "rms_norm": Row(function="rms_norm_and", arguments=_norm("eps"), params=_NORMED),
    # The mean of squares less the square of the mean loses digits.
    "layer_norm": Row(
        function="norm_and", arguments=_norm("eps"), params=_NORMED, path="library_sums"
    ),
    "group_norm": Row(
        function="group_norm_and",
        arguments=_norm("groups", "eps"),
        params=_NORMED | {"groups"},
        path="library_sums",
    ),
    "l2_norm": Row(function="l2_norm", arguments=with_numbers("eps"), params=frozenset({"eps"})),
    "add_rms_norm": Row(function="add_rms_norm", arguments=_add_norm, params=_NORMED),
    "timestep_embedding": Row(
        function="timestep_embedding",
        arguments=lambda problem, views: (
            *(views["x"], problem.shape["d"], int(problem.params["max_period"])),
            views["y"],
        ),
        params=frozenset({"max_period"}),
        path="ggml_angles",
    ),
    "lightning_indexer": Row(
        function="lightning_indexer", arguments=_index_positions, path="library_sums"
    ),
    "dsv4_hc_comb": Row(
        function="dsv4_hc_comb",
        arguments=lambda problem, views: (
            *(views[name] for name in ("mixes", "scale", "base")),
            float(problem.params["epsilon"]),
            int(problem.params["iterations"]),
            views["y"],
        ),
        params=frozenset({"epsilon", "iterations"}),
    ),
    "dsv4_hc_pre": Row(function="dsv4_hc_pre", arguments=of_arrays("x", "weights")),
    "dsv4_hc_pre_gated": Row(
        function="dsv4_hc_pre_gated",
        arguments=with_numbers("scale", of=("x", "gate")),
        params=frozenset({"scale"}),
    ),
    "dsv4_hc_post": Row(function="hc_post", arguments=_hc_post, params=frozenset({"mixing"})),
    "rms_norm_back": Row(
        function="rms_norm_back_of",
        arguments=with_numbers("eps", of=("dy", "x"), to="dx"),
        params=frozenset({"eps"}),
    ),
    **{
        name: Row(
            function="turn_into_rows",
            arguments=_turn_into_rows,
            params=_ROPE | more,
            fits=_turns_into_rows,
            path="ggml_angles",
        )
        for name, more in (("rope_set_rows", set()), ("rms_norm_rope_set_rows", {"eps"}))
    },
    "rms_norm_rope": Row(
        function="norm_rope",
        arguments=_norm_rope,
        params=_ROPE | {"eps"},
        fits=_rope_fits,
        path="ggml_angles",
    ),
    **{
        name: Row(
            function="rope",
            arguments=partial(_rope, *ends),
            params=_ROPE,
            fits=_rope_fits,
            path="ggml_angles",
        )
        for name, ends in (("rope", ("", "x", "y")), ("rope_back", ("_back", "dy", "dx")))
    },
}
