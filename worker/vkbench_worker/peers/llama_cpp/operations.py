"""Which kernels of the catalogue ggml has, and by which function of its C API with which arguments.

Limits are those of the arithmetic that ggml documents or its shaders have, on any device: products
of matrices of floats round factors to f16 and may be summed in f16; where weights have blocks, x
may be rounded to bytes (q8_1) besides. Vectors (up to eight) are summed in singles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Final

import numpy as np

from vkbench_shaders.kernel import Array, Problem
from vkbench_worker.peers.library import Arguments, Row, Views

# What each function takes behind the context: tensors, floats, integers, truth values.
FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("abs", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_quick", "silu"),
            *("hardswish", "hardsigmoid", "exp", "expm1", "softplus", "gelu_erf", "floor", "ceil"),
            *("trunc", "sqr", "sqrt", "sin", "cos", "log", "sum_rows", "mean", "argmax"),
            *("cumsum", "reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick", "reglu_swapped"),
            *("geglu_swapped", "swiglu_swapped", "geglu_erf_swapped", "geglu_quick_swapped"),
        ),
        "t",
    ),
    **dict.fromkeys(
        (
            *("add", "sub", "mul", "div", "get_rows", "mul_mat", "reglu_split", "geglu_split"),
            *("swiglu_split", "geglu_erf_split", "geglu_quick_split"),
        ),
        "tt",
    ),
    "scale_bias": "tff",
    "clamp": "tff",
    "leaky_relu": "tfb",
    "argsort": "ti",
    "soft_max_ext": "ttff",
    "rms_norm": "tf",
    "norm": "tf",
    "l2_norm": "tf",
    "group_norm": "tif",
    "rope_ext": "tttiiiffffff",
    "concat": "tti",
    "mul_mat_id": "ttt",
    "conv_2d_direct": "ttiiiiii",
    "flash_attn_ext": "ttttfff",
}
# Functions that abort or compute nonsense for other formats, though the backend supports them.
OF_SINGLES: Final = (
    *("sum_rows", "mean", "argmax", "cumsum", "argsort", "rms_norm", "norm", "l2_norm"),
    "group_norm",
)
# Functions that take blocks.
OF_BLOCKS: Final = ("mul_mat", "mul_mat_id", "get_rows", "flash_attn_ext")
# Functions that are told their precision behind, as llama.cpp tells them: sums in singles.
PRECISE: Final[Mapping[str, str]] = {"flash_attn_ext": "flash_attn_ext_set_prec"}

# Functions with another one, `_swapped`, for gates that are the second half of a row.
GATED: Final = ("reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick")

_AXES: Final = "whcb"  # ggml's, the innermost first
_UNARY: Final = (
    *("abs", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_quick", "silu"),
    *("hardswish", "hardsigmoid", "exp", "expm1", "softplus", "gelu_erf", "floor", "ceil"),
    *("trunc", "sqr", "sqrt", "sin", "cos", "log"),
)
_EXACT: Final = ("abs", "neg", "step", "relu", "floor", "ceil", "trunc")
_VECTORS: Final = ("f32", "f16")
_MOST_VECTORS: Final = 8  # more of them are a matrix, to ggml


def _of(*names: str) -> Arguments:
    return lambda problem, views: (*(views[name] for name in names), views["y"])


def _with(*params: str) -> Arguments:
    return lambda problem, views: (
        views["x"],
        *(float(problem.params[name]) for name in params),
        views["y"],
    )


def _leaky_relu(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], float(problem.params["slope"]), False, views["y"]


def _give_gate(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], problem.params["gate"] != "first", views["y"]


def _one_matrix(problem: Problem) -> str:
    return "of several matrices" if problem.shape["b"] * problem.shape["c"] > 1 else ""


def _of_rows(problem: Problem) -> str:
    axes = str(problem.params["axes"])
    return f"along {axes}" if axes != "w" else ""


def _argsort(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], int(problem.params["order"] == "descending"), views["y"]


def _softmax(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], None, float(problem.params["scale"]), 0.0, views["y"]  # without a bias


def _group_norm(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], int(problem.params["groups"]), float(problem.params["eps"]), views["y"]


def _rope(problem: Problem, views: Views) -> tuple[object, ...]:
    params = problem.params
    names = ("freq_base", "freq_scale", "ext_factor", "attn_factor", "beta_fast", "beta_slow")
    return (
        *(views["x"], views["positions"], None),
        int(params["n_dims"]) or problem.shape["k"],
        2 if params["mode"] == "neox" else 0,
        int(params["n_ctx_orig"]),
        *(float(params[name]) for name in names),
        views["y"],
    )


def _rope_fits(problem: Problem) -> str:
    if problem.params["mode"] not in ("norm", "neox"):
        return f"with mode={problem.params['mode']}"  # its positions are several for each token
    return "of several sequences" if problem.shape["b"] > 1 else ""


def _concat(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["a"], views["b"], _AXES.index(str(problem.params["axis"])), views["y"]


def _experts(problem: Problem, views: Views) -> tuple[object, ...]:
    x = views["x"]
    if problem.params["x"] == "token":  # all experts of a token read the same row
        x = x.reshape((problem.shape["n"], 1, problem.shape["k"]))
    return views["weights"], x, views["ids"], views["y"]


def _conv2d(problem: Problem, views: Views) -> tuple[object, ...]:
    steps: list[int] = []
    for name in ("stride", "padding", "dilation"):
        across, down = int(problem.params[name]), int(problem.params[f"{name}_h"])
        steps += [across, across if down < 0 else down]
    return views["weights"], views["x"], *steps, views["y"]


def _attention(problem: Problem, views: Views) -> tuple[object, ...]:
    scale = float(problem.params["scale"]) or 1 / sqrt(problem.shape["d"])
    # without a mask, a bias and a cap
    return views["q"], views["k"], views["v"], None, scale, 0.0, 0.0, views["y"]


def _heads_apart(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """ggml has the heads of a query beside each other, and we the queries of a head."""
    s, h, q, e = y.shape
    return y.reshape(s, q, h, e).transpose(0, 2, 1, 3)


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


def _first_of_equal(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Of equal numbers ggml finds any, and we the first."""
    x = given("x")
    if not ((y >= 0) & (y < x.shape[-1])).all():
        return y  # it is wrong anyway
    alike = x == np.take_along_axis(x, y, axis=-1)
    first = np.argmax(alike, axis=-1, keepdims=True)
    return np.where(alike.any(axis=-1, keepdims=True), first, y).astype(y.dtype)


def _of_numbers(problem: Problem) -> str:
    return "" if problem.types["x"] in _VECTORS else f"of x in {problem.types['x']}"


def _product_path(problem: Problem) -> str:
    """The arithmetic of a product, by whether x may become bytes and sums may be in halves."""
    has_blocks = problem.format("weights").quantised
    if problem.shape["n"] <= _MOST_VECTORS:
        return "ggml_vectors" if has_blocks else "library_sums"
    return "ggml_blocks" if has_blocks else "f16_accumulation"


_MUL_MAT: Final = Row(
    function="mul_mat", arguments=_of("weights", "x"), fits=_of_numbers, path=_product_path
)
_MUL_MAT_ID: Final = Row(
    function="mul_mat_id",
    arguments=_experts,
    params=frozenset({"x"}),
    fits=_of_numbers,
    path=_product_path,
)
_FLASH_ATTN: Final = Row(
    function="flash_attn_ext",
    arguments=_attention,
    params=frozenset({"scale"}),
    path="library_attention",
    order={"y": _heads_apart},
)

ROWS: Final[Mapping[str, Row]] = {
    # That each small result is as near as large ones is a claim of ours, and not ggml's.
    **{
        name: Row(function=name, arguments=_of("x"), path="" if name in _EXACT else "f32")
        for name in _UNARY
    },
    **{
        name: Row(
            function=name,
            arguments=_give_gate,
            params=frozenset({"gate"}),
            path="f32",
        )
        for name in GATED
    },
    **{
        f"{name}_split": Row(function=f"{name}_split", arguments=_of("a", "b"), path="f32")
        for name in GATED
    },
    **{name: Row(function=name, arguments=_of("a", "b")) for name in ("add", "sub", "mul", "div")},
    "scale": Row(
        function="scale_bias",
        arguments=_with("factor", "bias"),
        params=frozenset({"factor", "bias"}),
    ),
    "clamp": Row(
        function="clamp", arguments=_with("low", "high"), params=frozenset({"low", "high"})
    ),
    "leaky_relu": Row(
        function="leaky_relu", arguments=_leaky_relu, params=frozenset({"slope"}), path="f32"
    ),
    "sum": Row(
        function="sum_rows",
        arguments=_of("x"),
        params=frozenset({"axes"}),
        fits=_of_rows,
        path="library_sums",
    ),
    "mean": Row(
        function="mean",
        arguments=_of("x"),
        params=frozenset({"axes"}),
        fits=_of_rows,
        path="library_sums",
    ),
    "argmax": Row(
        function="argmax",
        arguments=_of("x"),
        params=frozenset({"axes"}),
        fits=lambda problem: _of_rows(problem) or _one_matrix(problem),
        order={"y": _first_of_equal},
    ),
    "cumsum": Row(function="cumsum", arguments=_of("x")),
    "argsort": Row(
        function="argsort",
        arguments=_argsort,
        params=frozenset({"order"}),
        order={"y": _ties_in_order},
    ),
    "softmax": Row(function="soft_max_ext", arguments=_softmax, params=frozenset({"scale"})),
    "rms_norm": Row(function="rms_norm", arguments=_with("eps"), params=frozenset({"eps"})),
    "layer_norm": Row(function="norm", arguments=_with("eps"), params=frozenset({"eps"})),
    "l2_norm": Row(function="l2_norm", arguments=_with("eps"), params=frozenset({"eps"})),
    "group_norm": Row(
        function="group_norm", arguments=_group_norm, params=frozenset({"eps", "groups"})
    ),
    "rope": Row(
        function="rope_ext",
        arguments=_rope,
        params=frozenset({"mode", "n_dims", "freq_base", "freq_scale", "ext_factor"})
        | {"attn_factor", "beta_fast", "beta_slow", "n_ctx_orig"},
        fits=_rope_fits,
        path="ggml_angles",
    ),
    "get_rows": Row(
        function="get_rows",
        arguments=_of("table", "ids"),
        fits=lambda problem: "by ids of 64 bits" if problem.types["ids"] == "i64" else "",
    ),
    "concat": Row(function="concat", arguments=_concat, params=frozenset({"axis"})),
    "mul_mat": _MUL_MAT,
    "mul_mat_vec": _MUL_MAT,
    "mul_mat_id": _MUL_MAT_ID,
    "mul_mat_vec_id": _MUL_MAT_ID,
    "conv2d": Row(
        function="conv_2d_direct",
        arguments=_conv2d,
        params=frozenset(
            f"{name}{end}" for name in ("stride", "padding", "dilation") for end in ("", "_h")
        ),
        path="f16_accumulation",
    ),
    "flash_attn": _FLASH_ATTN,
    "sdpa": _FLASH_ATTN,
}
