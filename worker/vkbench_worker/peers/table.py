"""Which kernels of the catalogue a peer can do, and by which of its functions.

A row serves every library that has the function. A case is refused with a reason where the library
lacks the function or the format, or where the case has a parameter that the row does not know. A
factor that is `converted` is turned into the library's working format before anything is timed: a
peer without a format of blocks may have its numbers. All else, results in other formats too, is
part of what is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Final, TypeVar

import numpy as np

from vkbench.case import SEED, WEIGHTS
from vkbench_shaders.kernel import Problem
from vkbench_shaders.kernels.elementwise.unary_operations import OPERATIONS
from vkbench_worker.peers.library import Arguments, CannotDo, Library, Row, Views

M = TypeVar("M")

# Parameters that say how arrays lie and what is in them: views and inputs have these already.
_ABOUT_ARRAYS: Final = frozenset({"layout", "values", "broadcast", "routing", WEIGHTS, SEED})
_AXES: Final = "bchw"
_FLOATS: Final = ("f32", "f16", "bf16", "f64")


def row_of(problem: Problem, library: Library[M]) -> Row:
    """How a library does a case; CannotDo says why it does not."""
    kernel, name = problem.kernel, library.name
    row = None if kernel.content else library.rows.get(kernel.name)
    if row is None or row.function not in library.functions:
        near = library.lacks.get(kernel.name, "")
        raise CannotDo(f"{name} has no {kernel.name}{near and f': {near}'}")
    known = row.params | _ABOUT_ARRAYS | set(kernel.tuning.params if kernel.tuning else ())
    if unknown := sorted(set(problem.case.params) - known):
        raise CannotDo(f"{name} has no {kernel.name} with {', '.join(unknown)}")
    if reason := row.fits(problem):
        raise CannotDo(f"{name} has no {kernel.name} {reason}")
    for binding, fmt in problem.types.items():
        if problem.reads(binding) and binding not in row.converted:
            _check_format(library, row, kernel.name, fmt)
    return row


def _check_format(library: Library[M], row: Row, kernel: str, fmt: str) -> None:
    if not library.takes(row.function, fmt):
        raise CannotDo(f"{library.name} has no {kernel} of {fmt}")


def working_format(row: Row, library: Library[M], problem: Problem, binding: str) -> str:
    """The format that a library has a binding in: its own, or the one it was converted to."""
    fmt = problem.types[binding]
    if binding not in row.converted or fmt == library.working:
        return fmt
    is_taken = library.takes(row.function, fmt)
    return fmt if is_taken and not library.widens else library.working


def path_of(row: Row, library: Library[M], problem: Problem) -> str:
    """The arithmetic whose limits judge a peer's result: as strict as for a kernel of ours.

    Products on a GPU may be summed with fewer bits, as matrix units do.
    """
    formats = {working_format(row, library, problem, name) for name in row.factors}
    if len(formats) > 1 and not library.widens:
        for fmt in formats & row.rounded.keys():
            return row.rounded[fmt]
    on_gpu = "" if library.widens else row.on_gpu
    path = row.path if isinstance(row.path, str) else row.path(problem)
    return on_gpu or path or problem.kernel.variants_for(problem.types)[-1].arithmetic


def _one(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], views["y"]


def _two(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["a"], views["b"], views["y"]


def _unary(names: tuple[str, ...]) -> Arguments:
    def arguments(problem: Problem, views: Views) -> tuple[object, ...]:
        values = [float(np.float32(problem.params[name])) for name in names]
        return (*values, views["x"], views["y"])

    return arguments


def _axes(problem: Problem, views: Views) -> tuple[object, ...]:
    along = tuple(_AXES.index(axis) for axis in str(problem.params["axes"]))
    return along, views["x"], views["y"]


def _one_axis(problem: Problem) -> str:
    axes = str(problem.params["axes"])
    return f"along {axes}" if len(axes) > 1 else ""


def _weights_by_x(problem: Problem, views: Views) -> tuple[object, ...]:
    """y = x * weights^T: rows of weights lie as GGML has them."""
    return views["x"], views["weights"].swapaxes(0, 1), views["y"]


def _softmax(problem: Problem, views: Views) -> tuple[object, ...]:
    return float(np.float32(problem.params["scale"])), views["x"], views["y"]


def _norm(problem: Problem, views: Views) -> tuple[object, ...]:
    fused = str(problem.params["fused"])
    weights = views["weights"] if fused != "none" else None
    biases = views["biases"] if fused == "mul_add" else None
    return float(np.float32(problem.params["eps"])), weights, biases, views["x"], views["y"]


def _group_norm(problem: Problem, views: Views) -> tuple[object, ...]:
    return int(problem.params["groups"]), *_norm(problem, views)


def _keeps_what_fits(problem: Problem) -> str:
    """Libraries wrap what no integer of a type holds, or leave open what becomes of it."""
    return "" if problem.types["y"] in _FLOATS else f"to {problem.types['y']}"


def _transpose(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"].swapaxes(-1, -2), views["y"]


def _concat(problem: Problem, views: Views) -> tuple[object, ...]:
    return _AXES.index(str(problem.params["axis"])), views["a"], views["b"], views["y"]


def _argsort(problem: Problem, views: Views) -> tuple[object, ...]:
    return problem.params["order"] == "descending", views["x"], views["y"]


def _get_rows(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["table"], views["ids"], views["y"]


def _conv2d(problem: Problem, views: Views) -> tuple[object, ...]:
    def both(name: str) -> tuple[int, int]:
        across, down = int(problem.params[name]), int(problem.params[f"{name}_h"])
        return (across if down < 0 else down), across

    strides = both("stride"), both("padding"), both("dilation")
    return (*strides, views["x"], views["weights"], views["y"])


def _attention(problem: Problem, views: Views) -> tuple[object, ...]:
    scale = float(np.float32(problem.params["scale"])) or 1 / sqrt(problem.shape["d"])
    causal = problem.params["mask"] == "causal"
    return scale, causal, views["q"], views["k"], views["v"], views["y"]


def _attention_fits(problem: Problem) -> str:
    if problem.params["mask"] == "blocks":
        return "with a mask of blocks"
    if problem.params["mask"] == "causal" and problem.shape["q"] != problem.shape["n"]:
        return "with a causal mask of fewer queries than positions"
    return ""


_PRODUCT: Final = {"f16": "f16_library", "bf16": "bf16_library"}
_SUMS: Final = "library_sums"
_VECTORS: Final = Row(
    function="matmul",
    arguments=_weights_by_x,
    converted=("weights",),
    factors=("weights", "x"),
    rounded=_PRODUCT,
    on_gpu=_SUMS,
)
_STRIDES: Final = frozenset(
    f"{name}{end}" for name in ("stride", "padding", "dilation") for end in ("", "_h")
)
_ATTENTION: Final = Row(
    function="attention",
    arguments=_attention,
    params=frozenset({"scale", "mask"}),
    fits=_attention_fits,
    converted=("k", "v"),
    factors=("q", "k", "v"),
    rounded={"f16": "library_attention", "bf16": "library_attention"},
)

ROWS: Mapping[str, Row] = {
    # That each small result is as near as large ones is a claim of ours, and no other library's.
    **{
        operation.name: Row(
            function=operation.name,
            arguments=_unary(operation.measures),
            params=frozenset(operation.measures),
            path="f32" if operation.path == "f32_each" else operation.path,
        )
        for operation in OPERATIONS
    },
    **{
        name: Row(function=name, arguments=_two)
        for name in ("add", "sub", "mul", "div", "minimum", "maximum")
    },
    # A sum in singles is right, though ours carries what rounding takes from it.
    **{
        name: Row(function=name, arguments=_axes, params=frozenset({"axes"}), path="f32")
        for name in ("sum", "mean")
    },
    **{
        name: Row(function=name, arguments=_axes, params=frozenset({"axes"}))
        for name in ("max", "min")
    },
    **{
        name: Row(function=name, arguments=_axes, params=frozenset({"axes"}), fits=_one_axis)
        for name in ("argmax", "argmin")
    },
    "cumsum": Row(function="cumsum", arguments=_one),
    "argsort": Row(function="argsort", arguments=_argsort, params=frozenset({"order"})),
    "softmax": Row(function="softmax", arguments=_softmax, params=frozenset({"scale"})),
    "rms_norm": Row(function="rms_norm", arguments=_norm, params=frozenset({"eps", "fused"})),
    "layer_norm": Row(function="layer_norm", arguments=_norm, params=frozenset({"eps", "fused"})),
    "group_norm": Row(
        function="group_norm", arguments=_group_norm, params=frozenset({"groups", "eps", "fused"})
    ),
    "matmul": Row(
        function="matmul",
        arguments=_two,
        factors=("a", "b"),
        rounded=_PRODUCT,
        on_gpu=_SUMS,
    ),
    "mul_mat": _VECTORS,
    "mul_mat_vec": _VECTORS,
    "conv2d": Row(
        function="conv2d",
        arguments=_conv2d,
        params=_STRIDES,
        converted=("weights",),
        factors=("weights", "x"),
        rounded=_PRODUCT,
        on_gpu=_SUMS,
    ),
    "flash_attn": _ATTENTION,
    "sdpa": _ATTENTION,
    "get_rows": Row(function="get_rows", arguments=_get_rows),
    "copy": Row(function="copy", arguments=_one),
    "copy2d": Row(function="copy", arguments=_one),
    "to_dtype": Row(function="copy", arguments=_one, fits=_keeps_what_fits),
    "transpose": Row(function="copy", arguments=_transpose),
    "cont": Row(function="copy", arguments=_one, params=frozenset({"order"})),
    "concat": Row(function="concat", arguments=_concat, params=frozenset({"axis"})),
}
