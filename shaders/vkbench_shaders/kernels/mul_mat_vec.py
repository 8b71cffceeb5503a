"""mul_mat_vec: a matrix of weights times a few vectors, the work of decoding one token."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import data, quants
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Problem,
    Refuses,
    Shapes,
    Variant,
    grid,
    matrix_shape,
    too_large,
)

FORMATS = ("q4_0", "q8_0", "f16", "f32")
ROWS = 4  # rows of y a workgroup
MOST_COLUMNS = 8  # columns of y a workgroup; more go on along z
MOST_SUBGROUPS = 64  # that the shader has room for
LONG = 768  # pieces in a row from which 256 threads are faster than 128, measured on an H200
PIECE = {"q4_0": 16, "q8_0": 16, "f16": 8, "f32": 8}  # weights a thread takes at a time


def threads(problem: Problem, device: DeviceFacts) -> int:
    """A power of two, so many that each has a piece of a row, or several of a long one."""
    pieces = problem.shape["k"] // PIECE[problem.types["weights"]]
    if pieces <= 64:
        return 32 if pieces <= 32 else 64
    limits = ("max_workgroup_invocations", "max_workgroup_size_x")
    wide = all(device.limits.get(limit, 0) >= 256 for limit in limits)
    return 256 if pieces >= LONG and wide else 128


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n, k = (problem.shape[dim] for dim in "mnk")
    columns = min(n, MOST_COLUMNS)
    groups = grid(-(-m // ROWS), depth=-(-n // columns))
    return Launch(
        groups=groups,
        push=struct.pack("<4I", m, n, k, groups[0]),
        constants={0: threads(problem, device), 1: columns},
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if problem.shape["n"] > MOST_COLUMNS * MOST_GROUPS:
        return f"n is {problem.shape['n']}, one launch makes {MOST_COLUMNS * MOST_GROUPS} at most"
    return too_large(problem, device)


def refuses_subgroups(problem: Problem, device: DeviceFacts) -> str | None:
    subgroups = threads(problem, device) // max(1, device.subgroup_size)
    if subgroups > MOST_SUBGROUPS:
        return f"a workgroup has {subgroups} subgroups, the kernel has room for {MOST_SUBGROUPS}"
    return refuses(problem, device)


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    weights = inputs["weights"] if rows is None else inputs["weights"][rows]
    exact = quants.dequantise(problem.types["weights"], weights)
    return {"y": inputs["x"].astype(np.float64) @ exact.T}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    m, k = matrix_shape("weights", shapes, types)
    n, width = matrix_shape("x", shapes, types)
    if width != k:
        raise UsageError(
            f"weights have rows of {k} numbers, x has rows of {width}: they must be equal"
        )
    return {"m": m, "n": n, "k": k}


def _variant(name: str, total: str, requires: tuple[str, ...], refuses: Refuses) -> Variant:
    return Variant(
        name=name,
        module="mul_mat_vec",
        entry="mul_mat_vec",
        arguments=lambda types: (types["weights"], total),
        launch=launch,
        path="f32",
        requires=requires,
        refuses=refuses,
    )


_SHAPES = (
    (1, 1, 32), (5, 1, 32), (3, 2, 64), (127, 1, 256), (129, 3, 256), (64, 8, 96), (61, 5, 1056),
    (256, 1, 4096), (67, 7, 4096), (31, 9, 544), (17, 4, 14336),
)  # fmt: skip
_RAGGED = (
    (1, 1, 1),
    (2, 1, 7),
    (5, 2, 33),
    (37, 3, 127),
    (64, 1, 257),
    (19, 8, 1021),
)  # plain formats only
_TIMED = ((4096, 1, 4096), (4096, 1, 14336), (4096, 8, 4096))

MUL_MAT_VEC = Kernel(
    name="mul_mat_vec",
    description="Multiplies a matrix of weights with a few vectors: y = x weights^T.",
    dims=("m", "n", "k"),
    bindings=(
        Binding(
            name="weights",
            access="in",
            types=FORMATS,
            dims=("m", "k"),
            description="matrix, row by row",
        ),
        Binding(
            name="x", access="in", types=("f32",), dims=("n", "k"), description="vectors, one a row"
        ),
        Binding(
            name="y",
            access="out",
            types=("f32",),
            dims=("n", "m"),
            description="products, one vector a row",
        ),
    ),
    variants=(
        _variant("subgroup", "subgroup_sum", ("subgroup_arithmetic",), refuses_subgroups),
        _variant("portable", "tree_sum", (), refuses),
    ),
    inputs=lambda problem: {
        "weights": data.weights(problem, "weights"),
        "x": data.activations(problem, "x"),
    },
    reference=reference,
    flops=lambda problem: 2 * problem.shape["m"] * problem.shape["n"] * problem.shape["k"],
    infer=infer,
    rows="m",
    cases=tuple(
        parse(f"mul_mat_vec/{fmt}/m{m}_n{n}_k{k}")
        for fmt in FORMATS
        for m, n, k in _SHAPES + (_RAGGED if fmt in ("f16", "f32") else ())
    ),
    timed=tuple(
        parse(f"mul_mat_vec/{fmt}/m{m}_n{n}_k{k}") for fmt in FORMATS for m, n, k in _TIMED
    ),
)
