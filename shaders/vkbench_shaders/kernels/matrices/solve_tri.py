"""solve_tri: systems of linear equations whose matrices are lower triangles."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Problem,
    Work,
    grid,
)
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable

_COLUMNS = 32  # of a workgroup: those of solve_tri.slang
_THREADS = 128


def _launch(problem: Problem, device: DeviceFacts) -> Launch:
    b, n, k = problem.shape.values()
    a, x = (problem.layout(name) for name in "ax")
    tiles = -(-k // _COLUMNS)
    groups = grid(b * tiles)
    return Launch(
        groups=groups,
        push={
            "n": n,
            "k": k,
            "tiles": max(tiles, 1),
            "matrices": b,
            "a_offset": a.offset,
            "a_b": a.strides[0],
            "a_n": a.strides[1],
            "x_offset": x.offset,
            "x_b": x.strides[0],
            "x_n": x.strides[1],
            "groups_x": groups[0],
        },
        constants={"THREADS": _THREADS},
    )


def _lay_out(problem: Problem, binding: str) -> Layout:
    """y has no gaps; other rows lie by the parameter `layout`."""
    if binding == "y":
        return Layout.contiguous(problem.full_shape(binding))
    return rows.layout(problem, binding)


def _make_inputs(problem: Problem) -> dict[str, Array]:
    """Matrices by which solutions neither grow nor vanish; what is above the diagonal is noise."""
    n = problem.shape["n"]
    a = data.uniform(problem, "a", -1, 1) / np.float32(sqrt(n)) + 2 * np.eye(n, dtype=np.float32)
    return {"a": a.astype(np.float32), "x": data.uniform(problem, "x", -1, 1)}


def _solve(problem: Problem, inputs: Arrays, sampled: Array | None) -> dict[str, Array]:
    """Forward substitution, a row after the other."""
    a, y = inputs["a"].astype(np.float64), inputs["x"].astype(np.float64)
    for row in range(problem.shape["n"]):
        before = np.einsum("bj,bjk->bk", a[:, row, :row], y[:, :row])
        y[:, row] = (y[:, row] - before) / a[:, row, row, None]
    return {"y": y}


def _count_moved(problem: Problem) -> int:
    """Bytes that have to be moved: of matrices the lower triangles."""
    b, n, k = problem.shape.values()
    return 4 * b * (n * (n + 1) // 2 + 2 * n * k)


def _cases() -> Iterator[Case]:
    shapes = ((1, 1, 1), (2, 33, 3), (3, 64, 32), (2, 10, 67), (1, 130, 35), (0, 5, 3))
    yield from rows.list_cases("solve_tri", "f32", {}, "bnk", shapes)
    yield from rows.list_cases("solve_tri", "f32", {}, "bnk", ((2, 37, 34),), "strided")


_TIMED = ((16, 64, 32), (8, 128, 32), (256, 64, 64), (128, 128, 128), (8, 256, 128))

SOLVE_TRI = Kernel(
    name="solve_tri",
    description="Solves equations of lower triangular matrices: y for which a y = x; what a has"
    " above its diagonal does not count.",
    group="matmul",
    dims=("b", "n", "k"),
    bindings=(
        declare_input(
            "a", ("f32",), ("b", "n", "n"), "matrices, of which the lower triangle counts"
        ),
        declare_input("x", ("f32",), ("b", "n", "k"), "right sides, k of each matrix"),
        declare_output("y", ("f32",), ("b", "n", "k"), "solutions"),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=_lay_out, empty=("b", "k")),
    variants=(portable("solve_tri", _launch, "f32"),),
    inputs=_make_inputs,
    check=Check(reference=_solve),
    work=Work(
        flops=lambda problem: (
            problem.shape["b"] * problem.shape["k"] * problem.shape["n"] * (problem.shape["n"] + 1)
        ),
        bytes_moved=_count_moved,
    ),
    cases=CaseList(_cases),
    timed=CaseList(lambda: rows.list_cases("solve_tri", "f32", {}, "bnk", _TIMED)),
)
