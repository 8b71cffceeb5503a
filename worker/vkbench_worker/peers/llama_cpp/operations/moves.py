"""Rows of copies, of numbers in other formats, of rows of tables, and of moved items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.kernels.quant.quantize import is_searched
from vkbench_shaders.quantisers import quants
from vkbench_worker.peers.library import Row, Views
from vkbench_worker.peers.llama_cpp.operations.arguments import of_arrays

_AXES: Final = "whcb"  # ggml's, the innermost first
_TRIANGLES: Final = ("upper", "above", "lower", "below")  # by ggml's numbers
_PART: Final = frozenset(f"at_{axis}" for axis in _AXES)
_FLOATS: Final = ("f32", "f16", "bf16")
_MORE: Final = 0.02  # how much larger squares of errors may be where a code is as near as another


def _cast(x: str) -> Callable[[Problem, Views], tuple[object, ...]]:
    """Copies to the format of the result."""

    def arguments(problem: Problem, views: Views) -> tuple[object, ...]:
        return views[x], problem.format("y").ggml, views["y"]

    return arguments


def _to_floats(problem: Problem) -> str:
    """ggml cuts numbers to integers as each device does."""
    return "" if problem.types["y"] in _FLOATS else f"to {problem.types['y']}"


def _without_search(problem: Problem) -> str:
    """ggml searches for scales as well, by other steps, and only on CPUs."""
    fmt = problem.types["y"]
    if not is_searched(problem.types):
        return ""
    return f"to {fmt} with the same search for scales"


def _transpose(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"].permute((0, 2, 1)), views["y"]


def _concat(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["a"], views["b"], _AXES.index(str(problem.params["axis"])), views["y"]


def _along(problem: Problem, name: str) -> tuple[int, ...]:
    return tuple(int(problem.params[f"{name}_{axis}"]) for axis in _AXES)


def _pad(problem: Problem, views: Views) -> tuple[object, ...]:
    sides = (_along(problem, "before"), _along(problem, "after"))
    return views["x"], str(problem.params["mode"]), *sides, views["y"]


def _keep_triangle(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], _TRIANGLES.index(str(problem.params["part"])), views["y"]


def _of_squares(problem: Problem) -> str:
    return "" if problem.shape["h"] == problem.shape["w"] else "of matrices that are not square"


def _make_diagonal(problem: Problem, views: Views) -> tuple[object, ...]:
    """Rows as matrices of one row."""
    x = views["x"]
    return x.reshape(*x.shape[:2], 1, x.shape[2]), views["y"]


def _hide_later(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], int(problem.params["past"]), views["y"]


def _into_part(problem: Problem, views: Views) -> tuple[object, ...]:
    """An array, what goes into it, and in bytes the steps of the array and where the part is."""
    strides = [4 * stride for stride in views["base"].layout.strides]
    starts = (int(problem.params[f"at_{dim}"]) for dim in "bchw")
    first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return views["base"], views["x"], *reversed(strides[:3]), first, views["y"]


def _roll(problem: Problem, views: Views) -> tuple[object, ...]:
    shifts = zip(_along(problem, "shift"), _AXES, strict=True)
    return views["x"], *(shift % problem.shape[axis] for shift, axis in shifts), views["y"]


def _arange(problem: Problem, views: Views) -> tuple[object, ...]:
    start, step = (float(problem.params[name]) for name in ("start", "step"))
    return start, start + step * (problem.shape["n"] - 0.5), step, views["y"]


def _take_rows(problem: Problem, views: Views) -> tuple[object, ...]:
    x = views["x"]
    return x.reshape(*x.shape[1:]), views["ids"], views["y"]


def _one_table(problem: Problem) -> str:
    return _short_ids(problem) or ("of several tables" if problem.shape["o"] > 1 else "")


def _short_ids(problem: Problem) -> str:
    return "" if problem.types["ids"] == "i32" else f"by ids in {problem.types['ids']}"


def _as_near(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Our blocks where ggml's are as near to the numbers that they stand for.

    Of two codes that are as near it may take the other one, and of scales the next.
    """
    return _choose_blocks(problem, y, given("x"))


def _as_near_in_rows(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """The same in rows of a table."""
    ids, ours = given("ids"), y.copy()
    ours[ids] = _choose_blocks(problem, y[ids], given("x"))
    return ours


def _choose_blocks(problem: Problem, y: Array, x: Array) -> Array:
    fmt = problem.format("y")
    if not fmt.quantised:
        return y
    numbers = x.astype(np.float32)
    ours = quants.quantise(fmt.name, numbers)
    theirs, nearest = (_errors(problem, blocks, numbers) for blocks in (y, ours))
    as_near = np.repeat(theirs <= nearest * (1 + _MORE), fmt.bytes // fmt.dtype.itemsize, axis=-1)
    return np.where(as_near, ours, y)


def _errors(problem: Problem, blocks: Array, x: Array) -> Array:
    """The squares of errors, a sum for each block."""
    fmt = problem.format("y")
    with np.errstate(invalid="ignore", over="ignore"):
        off = quants.dequantise(fmt.name, np.ascontiguousarray(blocks)) - x.astype(np.float64)
        squares = np.square(off).reshape(*x.shape[:-1], -1, fmt.elements).sum(axis=-1)
    return np.asarray(np.where(np.isnan(squares), np.inf, squares))


ROWS: Final[Mapping[str, Row]] = {
    "copy": Row(function="cast", arguments=_cast("x")),
    "copy2d": Row(function="cont", arguments=of_arrays("x")),
    "cont": Row(function="cont", arguments=of_arrays("x"), params=frozenset({"order"})),
    "transpose": Row(function="cont", arguments=_transpose),
    "to_dtype": Row(function="cast", arguments=_cast("x"), fits=_to_floats),
    "quantize": Row(
        function="cast", arguments=_cast("x"), fits=_without_search, order={"y": _as_near}
    ),
    "dequantize": Row(function="cast", arguments=_cast("weights"), path="f32"),
    "copy_from": Row(function="cast", arguments=_cast("weights"), path="f32"),
    "get_rows": Row(function="get_rows", arguments=of_arrays("table", "ids"), fits=_short_ids),
    "set_rows": Row(
        function="set_rows", arguments=of_arrays("y", "x", "ids"), order={"y": _as_near_in_rows}
    ),
    "index_select": Row(function="get_rows", arguments=_take_rows, fits=_one_table),
    "get_rows_back": Row(
        function="get_rows_back",
        arguments=of_arrays("x", "ids", "y"),
        fits=_short_ids,
        path="library_sums",
    ),
    "concat": Row(function="concat", arguments=_concat, params=frozenset({"axis"})),
    "concat_blocks": Row(function="concat", arguments=_concat, params=frozenset({"axis"})),
    "copy_blocks": Row(function="cast", arguments=_cast("x")),
    "repeat": Row(
        function="repeat_to",
        arguments=of_arrays("x"),
        params=frozenset(f"times_{axis}" for axis in _AXES),
    ),
    "repeat_back": Row(
        function="repeat_back",
        arguments=of_arrays("x", "y"),
        params=frozenset(f"times_{axis}" for axis in _AXES),
        path="library_sums",
    ),
    "pad": Row(
        function="pad_all",
        arguments=_pad,
        params=frozenset({"mode"})
        | {f"{side}_{axis}" for side in ("before", "after") for axis in _AXES},
    ),
    "tri": Row(
        function="tri", arguments=_keep_triangle, params=frozenset({"part"}), fits=_of_squares
    ),
    "diag": Row(function="diag", arguments=_make_diagonal),
    "diag_mask_inf": Row(
        function="diag_mask_inf", arguments=_hide_later, params=frozenset({"past"})
    ),
    "set": Row(function="set", arguments=_into_part, params=_PART),
    "acc": Row(function="acc", arguments=_into_part, params=_PART),
    "roll": Row(
        function="roll",
        arguments=_roll,
        params=frozenset(f"shift_{axis}" for axis in _AXES),
    ),
    "zeros": Row(function="fill_with", arguments=lambda problem, views: (0.0, views["y"])),
    "fill": Row(
        function="fill_with",
        arguments=lambda problem, views: (float(problem.params["value"]), views["y"]),
        params=frozenset({"value"}),
    ),
    "arange": Row(
        function="arange", arguments=_arange, params=frozenset({"start", "step"}), path="f32"
    ),
}
