"""Rows of functions of one number, arithmetic and gated units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vkbench_shaders.kernel import Problem
from vkbench_worker.peers.library import Row, Views
from vkbench_worker.peers.llama_cpp.operations.arguments import of_arrays, with_numbers
from vkbench_worker.peers.llama_cpp.operations.signatures import GATED

_UNARY: Final = (
    *("abs", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_quick", "silu"),
    *("hardswish", "hardsigmoid", "exp", "expm1", "softplus", "gelu_erf", "floor", "ceil"),
    *("trunc", "sqr", "sqrt", "sin", "cos", "log"),
)
_EXACT: Final = ("abs", "neg", "step", "relu", "floor", "ceil", "trunc")
_UNITS: Final = "library_sums"  # a single number near 0 is off by 3e-5 of itself
_XIELU: Final = ("alpha_n", "alpha_p", "beta", "eps")
_OAI: Final = ("alpha", "limit")


def _leaky_relu(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], float(problem.params["slope"]), False, views["y"]


def _away_alone(problem: Problem) -> str:
    return "" if problem.params["ties"] == "away" else "of halves to even numbers"


def _snake(problem: Problem, views: Views) -> tuple[object, ...]:
    """Channels are rows, whose numbers have one rate and one share."""
    b, c, h, w = problem.shape.values()
    x, y = (views[name].reshape(b, c, h * w) for name in ("x", "y"))
    return x, *(views[name].reshape(c, 1) for name in ("rates", "shares")), y


def _snake_path(problem: Problem) -> str:
    """Steps leave halves to each other where a build does not fuse them."""
    return _UNITS if problem.types["x"] == "f32" else "f16_accumulation"


def _add_several(problem: Problem, views: Views) -> tuple[object, ...]:
    arrays = tuple(views[f"x{place}"] for place in range(int(problem.params["count"])))
    return arrays, views["y"]


def _give_gate(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], problem.params["gate"] != "first", views["y"]


ROWS: Final[Mapping[str, Row]] = {
    # That each small result is as near as large ones is a claim of ours, and not ggml's.
    **{
        name: Row(function=name, arguments=of_arrays("x"), path="" if name in _EXACT else "f32")
        for name in _UNARY
    },
    "sign": Row(function="sgn", arguments=of_arrays("x")),
    **{
        name: Row(function=name, arguments=_give_gate, params=frozenset({"gate"}), path=_UNITS)
        for name in GATED
    },
    **{
        f"{name}_split": Row(function=f"{name}_split", arguments=of_arrays("a", "b"), path=_UNITS)
        for name in GATED
    },
    **{
        name: Row(function=name, arguments=of_arrays("a", "b"), path=_UNITS)
        for name in ("sigmoid_mul", "softplus_mul")
    },
    **{
        name: Row(function=name, arguments=of_arrays("a", "b"))
        for name in ("add", "sub", "mul", "div")
    },
    "round": Row(
        function="round",
        arguments=of_arrays("x"),
        params=frozenset({"ties"}),
        fits=_away_alone,
    ),
    "add1": Row(function="add1", arguments=of_arrays("a", "b")),
    "add_id": Row(function="add_id", arguments=of_arrays("x", "biases", "ids")),
    "snake": Row(function="snake", arguments=_snake, path=_snake_path),
    "multi_add": Row(function="add_several", arguments=_add_several, params=frozenset({"count"})),
    "scale": Row(
        function="add_numbers",
        arguments=with_numbers("factor", "bias"),
        params=frozenset({"factor", "bias"}),
    ),
    "affine": Row(
        function="add_numbers",
        arguments=with_numbers("mul", "add"),
        params=frozenset({"mul", "add"}),
    ),
    "clamp": Row(
        function="clamp",
        arguments=with_numbers("low", "high"),
        params=frozenset({"low", "high"}),
    ),
    "leaky_relu": Row(
        function="leaky_relu", arguments=_leaky_relu, params=frozenset({"slope"}), path="f32"
    ),
    "xielu": Row(
        function="xielu", arguments=with_numbers(*_XIELU), params=frozenset(_XIELU), path="f32"
    ),
    "swiglu_oai_split": Row(
        function="swiglu_oai",
        arguments=with_numbers(*_OAI, of=("a", "b")),
        params=frozenset(_OAI),
        path="f32",
    ),
    "silu_back": Row(function="silu_back_of", arguments=of_arrays("dy", "x", to="dx"), path="f32"),
}
