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
from vkbench_worker.peers.library import Row
from vkbench_worker.peers.llama_cpp.operations.arguments import of_arrays

EXACT: Final = "exact"
SUMS: Final = "library_sums"
EACH: Final = "f32"

Fill = Callable[[Problem, str], Array]


@dataclass(frozen=True, kw_only=True)
class Given:
    """An input of an operation."""

    dims: str  # a letter each
    fill: Fill = data.bell


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
            declare_input(key, ("f32",), tuple(given.dims), "an input")
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


def _between(low: float, high: float) -> Fill:
    return lambda problem, key: data.uniform(problem, key, low, high)


def _halves(problem: Problem, key: str) -> Array:
    """Multiples of a quarter: of four, one lies in the middle between whole numbers."""
    return np.asarray(np.rint(data.uniform(problem, key, -40.0, 40.0) * 4) / np.float32(4))


def _no_two_alike(problem: Problem, key: str) -> Array:
    """Whole numbers, none of them twice in a row, so that the largest ones are told for sure."""
    return data.distinct(problem, key, 4 * problem.array_shape(key)[-1])


def _sort_places(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Places of the largest numbers, which come in any order."""
    return np.sort(y, axis=-1)


def _of_x(
    function: str, dims: str, path: str, output: str = "", fill: Fill = data.bell
) -> OwnOperation:
    """An operation of one array."""
    row = Row(function=function, arguments=of_arrays("x"), path=path)
    return OwnOperation(inputs={"x": Given(dims=dims, fill=fill)}, output=output or dims, row=row)


OPERATIONS: Final[Mapping[str, OwnOperation]] = {
    "round": _of_x("round", "hw", EACH, fill=_halves),
    "sum": _of_x("sum", "hw", SUMS, "o", fill=_between(0.0, 1.0)),
    "top_k": OwnOperation(
        inputs={"x": Given(dims="hw", fill=_no_two_alike)},
        output="hk",
        fmt="i32",
        row=Row(
            function="top_k",
            arguments=lambda problem, views: (views["x"], problem.shape["k"], views["y"]),
            path=EXACT,
            order={"y": _sort_places},
        ),
    ),
}
ROWS: Final[Mapping[str, Row]] = {name: each.row for name, each in OPERATIONS.items()}
