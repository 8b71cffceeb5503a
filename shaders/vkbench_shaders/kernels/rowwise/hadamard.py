"""hadamard: rows times a Hadamard matrix, which spreads outliers before they are quantised.

Sums and differences of pairs, a bit of the column's number after the other: k log2 k additions a
row, where a product with the matrix takes k^2.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from vkbench.case import parse
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
    Problem,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.row_values import place
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable

_HELD = 2048  # numbers of a workgroup, all of whole rows


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, k = problem.shape["m"], problem.shape["k"]
    groups = grid(-(-m * k // _HELD))
    return Launch(
        groups=groups,
        push={
            "x": place(problem.layout("x")),
            "y": place(problem.layout("y")),
            "rows": m,
            "groups_x": groups[0],
            "scale": 1 / sqrt(k),
        },
        constants={
            "POWER": k.bit_length() - 1,
            "WIDE": int(row_values.are_rows_aligned(problem, ("x", "y"), k)),
        },
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    k = problem.shape["k"]
    if k & (k - 1) or k > _HELD:
        return f"rows have {k} numbers: they have to be a power of two, {_HELD} at most"
    return too_large(problem, device)


def transform(problem: Problem, inputs: Arrays, sampled: Array | None) -> dict[str, Array]:
    x = inputs["x"] if sampled is None else inputs["x"][sampled]
    return {"y": add_and_subtract(x.astype(np.float64)) / sqrt(problem.shape["k"])}


def add_and_subtract(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Both halves of rows, transformed: their sums, then their differences."""
    if x.shape[-1] == 1:
        return x
    first, second = (add_and_subtract(half) for half in np.split(x, 2, axis=-1))
    return np.concatenate([first + second, first - second], axis=-1)


_CASES = (
    "m1_k1",
    "m5_k4",
    "m129_k64",
    "m33_k128",
    "m3_k2048",
    "m7_k512/layout=strided",
    "m300_k8/layout=strided",
    "m0_k64",
)

HADAMARD = Kernel(
    name="hadamard",
    description="Multiplies rows with a Hadamard matrix over the root of its size: each y is a sum"
    " of all of x with signs.",
    group="matmul",
    dims=("m", "k"),
    bindings=(
        declare_input("x", ("f32",), ("m", "k"), "rows, whose size is a power of two"),
        declare_output("y", ("f32",), ("m", "k"), "the same, transformed"),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=rows.layout, empty=("m",)),
    variants=(portable("hadamard", launch, "f32", refuses=refuses),),
    inputs=lambda problem: {"x": data.uniform(problem, "x", -4, 4)},
    check=Check(reference=transform, rows="m"),
    work=Work(
        flops=lambda problem: (
            problem.shape["m"] * problem.shape["k"] * problem.shape["k"].bit_length()
        )
    ),
    cases=CaseList(lambda: (parse(f"hadamard/f32/{case}") for case in _CASES)),
    timed=CaseList(
        lambda: (parse(f"hadamard/f32/{case}") for case in ("m4096_k128", "m65536_k256"))
    ),
)
