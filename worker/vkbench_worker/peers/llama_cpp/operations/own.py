"""Operations that ggml's Vulkan backend has and the catalogue lacks, as kernels of their own.

Each is what a kernel of the catalogue is, but for code paths, and its reference comes from
elsewhere: see `own_cases.py`. `vkbench/programs/ggml_cases.py` names the cases. Sizes are those of
the outermost dimension first, as everywhere here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Check, Kernel, Outputs, Problem, Work, each_once
from vkbench_worker.peers.library import Arguments, Row, Views
from vkbench_worker.peers.llama_cpp.arrays import GgmlArray
from vkbench_worker.peers.llama_cpp.launches import Nodes
from vkbench_worker.peers.llama_cpp.operations.arguments import of_arrays

EXACT: Final = "exact"
SUMS: Final = "library_sums"
EACH: Final = "f32"
_ANGLES: Final = 10_000  # the longest period of an embedding
_BALANCING: Final = 20  # rounds by which rows and columns come to add up to 1
_EPSILON: Final = 1e-6
_SINGLES: Final = 0  # ggml's type
_WINDOW: Final = 3  # numbers along each side of a window

Fill = Callable[[Problem, str], Array]


@dataclass(frozen=True, kw_only=True)
class Given:
    """An input of an operation."""

    dims: str  # a letter each
    fill: Fill = data.bell
    fmt: str = "f32"


@dataclass(frozen=True, kw_only=True)
class OwnOperation:
    """An operation, its arrays and how ggml is asked for it."""

    inputs: Mapping[str, Given]
    output: str  # dimensions, a letter each
    row: Row
    fmt: str = "f32"  # of the output

    def make_kernel(self, name: str, reference: Outputs) -> Kernel:
        """The operation as a kernel, whose results a reference judges."""
        bindings = [
            declare_input(key, (given.fmt,), tuple(given.dims), "an input")
            for key, given in self.inputs.items()
        ]
        output = declare_output("y", (self.fmt,), tuple(self.output), "the result")
        dims = "".join((*(given.dims for given in self.inputs.values()), self.output))
        return Kernel(
            name=name,
            description="An operation that ggml has.",
            group="ggml",
            dims=tuple(dict.fromkeys(dims)),
            bindings=(*bindings, output),
            variants=(),
            inputs=lambda problem: {
                key: given.fill(problem, key) for key, given in self.inputs.items()
            },
            cases=(),
            timed=(),
            check=Check(reference=reference),
            work=Work(flops=lambda problem: 0, bytes_moved=each_once),
        )


def _below(dim: str) -> Fill:
    """Random places along a dimension."""
    return lambda problem, key: data.indices(problem, key, problem.shape[dim])


def _between(low: float, high: float) -> Fill:
    return lambda problem, key: data.uniform(problem, key, low, high)


def _halves(problem: Problem, key: str) -> Array:
    """Multiples of a quarter: of four, one lies in the middle between whole numbers."""
    return np.asarray(np.rint(data.uniform(problem, key, -40.0, 40.0) * 4) / np.float32(4))


def _no_two_alike(problem: Problem, key: str) -> Array:
    """Whole numbers, none of them twice in a row, so that the largest ones are told for sure."""
    return data.distinct(problem, key, 4 * problem.array_shape(key)[-1])


def _with(*numbers: float | str, of: tuple[str, ...] = ("x",)) -> Arguments:
    """Arrays, then numbers, of which some are sizes along a dimension."""
    return lambda problem, views: (
        *(views[name] for name in of),
        *(problem.shape[number] if isinstance(number, str) else number for number in numbers),
        views["y"],
    )


def _im2col_3d(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["x"], problem.shape["c"], views["y"]


def lay_windows(nodes: Nodes, x: GgmlArray, channels: int, y: GgmlArray) -> None:
    """Windows of a volume as rows, with zeros around; the weights are asked for their shape."""
    taps = nodes.lay_between("f32", channels, _WINDOW, _WINDOW, _WINDOW)
    steps = (*(1, 1, 1), *(1, 1, 1), *(1, 1, 1))  # strides, paddings, dilations
    nodes.add("im2col_3d", taps, x, channels, *steps, _SINGLES, at=y)


def _sort_places(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Places of the largest numbers, which come in any order."""
    return np.sort(y, axis=-1)


def _rows(function: str, arguments: Arguments, path: str) -> Row:
    return Row(function=function, arguments=arguments, path=path)


def _of_x(
    function: str, dims: str, path: str, output: str = "", fill: Fill = data.bell
) -> OwnOperation:
    """An operation of one array."""
    row = _rows(function, of_arrays("x"), path)
    return OwnOperation(inputs={"x": Given(dims=dims, fill=fill)}, output=output or dims, row=row)


OPERATIONS: Final[Mapping[str, OwnOperation]] = {
    "round": _of_x("round", "hw", EACH, fill=_halves),
    "sum": _of_x("sum", "hw", SUMS, "o", fill=_between(0.0, 1.0)),
    "repeat_back": OwnOperation(
        inputs={"x": Given(dims="hw")},
        output="rw",
        row=_rows("repeat_back", lambda _, views: (views["x"], views["y"], views["y"]), SUMS),
    ),
    "get_rows_back": OwnOperation(
        inputs={"x": Given(dims="nk"), "ids": Given(dims="n", fill=_below("m"), fmt="i32")},
        output="mk",
        row=_rows(
            "get_rows_back",
            lambda _, views: (views["x"], views["ids"], views["y"], views["y"]),
            SUMS,
        ),
    ),
    "top_k": OwnOperation(
        inputs={"x": Given(dims="hw", fill=_no_two_alike)},
        output="hk",
        fmt="i32",
        row=Row(function="top_k", arguments=_with("k"), path=EXACT, order={"y": _sort_places}),
    ),
    "timestep_embedding": OwnOperation(
        inputs={"x": Given(dims="n", fill=_between(0.0, 1000.0))},
        output="nd",
        row=_rows("timestep_embedding", _with("d", _ANGLES), "ggml_angles"),
    ),
    "im2col_3d": OwnOperation(
        inputs={"x": Given(dims="cthw")},
        output="thwj",
        row=_rows("lay_windows", _im2col_3d, EXACT),
    ),
    # DeepSeek's streams beside the residual one, and its choice of what attention sees
    "dsv4_hc_comb": OwnOperation(
        inputs={"x": Given(dims="tj"), "scale": Given(dims="o"), "base": Given(dims="j")},
        output="tsd",
        row=_rows("dsv4_hc_comb", _with(_EPSILON, _BALANCING, of=("x", "scale", "base")), SUMS),
    ),
    "dsv4_hc_pre": OwnOperation(
        inputs={"x": Given(dims="tsm"), "weights": Given(dims="ts")},
        output="tm",
        row=_rows("dsv4_hc_pre", of_arrays("x", "weights"), SUMS),
    ),
    "dsv4_hc_post": OwnOperation(
        inputs={
            "x": Given(dims="tm"),
            "residual": Given(dims="tsm"),
            "post": Given(dims="ts"),
            "comb": Given(dims="tsd"),
        },
        output="tdm",
        row=_rows("dsv4_hc_post", of_arrays("x", "residual", "post", "comb"), SUMS),
    ),
    "lightning_indexer": OwnOperation(
        inputs={
            "q": Given(dims="thk"),
            "k": Given(dims="nok"),
            "weights": Given(dims="th"),
            "mask": Given(dims="tn", fmt="f16"),
        },
        output="tn",
        row=_rows("lightning_indexer", of_arrays("q", "k", "weights", "mask"), SUMS),
    ),
}
ROWS: Final[Mapping[str, Row]] = {name: each.row for name, each in OPERATIONS.items()}
CHAINS: Final[Mapping[str, Callable[..., None]]] = {"lay_windows": lay_windows}
