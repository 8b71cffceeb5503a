"""Gradients of moves: what repeat and get_rows spread is added up again, in an order."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
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
    Param,
    Problem,
    Push,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.shared import places, rows
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import MOST_DIVIDED, power_of_two
from vkbench_shaders.quantisers import quants

THREADS = 128
COLUMNS = 8  # of a thread that adds up rows
_BUSY = 1 << 16  # threads that keep a device busy
_TAKEN = ("f32", "f16")  # formats of what is added up, in f32


def times(problem: Problem) -> tuple[int, ...]:
    """How often the result lies in x along each dimension; UsageError if it does not."""
    sizes = []
    for dim in DIMS:
        size, count = problem.shape[dim], int(problem.params[f"times_{dim}"])
        if size % count:
            raise UsageError(f"{dim}={size} is no multiple of {count}, its number of repeats")
        sizes.append(count)
    return tuple(sizes)


def lay_out_repeated(problem: Problem, binding: str) -> Layout:
    if binding == "x":
        return places.layout(problem, binding)
    sizes = zip(DIMS, times(problem), strict=True)
    return Layout.contiguous([problem.shape[dim] // count for dim, count in sizes])


def launch_repeated(problem: Problem, device: DeviceFacts) -> Launch:
    """A team of threads for each number of the result: the fewer numbers, the larger."""
    x, shape, repeats = problem.layout("x"), problem.array_shape("y"), times(problem)
    count, copies = prod(shape), prod(repeats)
    lanes = min(THREADS, power_of_two(copies), power_of_two(max(1, _BUSY // max(count, 1))))
    groups = grid(-(-count * lanes // THREADS))
    _, c, h, w = repeats
    push: Push = {
        "sizes": places.sizes(shape),
        "repeats": places.sizes((1, c, h, w)),
        "copies": copies,
        "x": places.place(x),
        "batches": shape[0],
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS, "LANES": lanes})


def refuse_many(problem: Problem, device: DeviceFacts) -> str | None:
    if prod(problem.array_shape("x")) >= MOST_DIVIDED:
        return f"x is too large: the kernel counts to {MOST_DIVIDED}"
    return too_large(problem, device)


def add_repeated(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = quants.dequantise(problem.types["x"], inputs["x"]).astype(np.float64)
    pairs = zip(times(problem), problem.array_shape("y"), strict=True)
    return {"y": x.reshape([size for pair in pairs for size in pair]).sum(axis=(0, 2, 4, 6))}


_REPEATS = (
    "b1_c1_h1_w1",
    "b4_c6_h10_w21/times_b=2,times_c=3,times_h=2,times_w=3",
    "b1_c1_h67_w33/times_h=67",
    "b1_c3_h5_w1001/times_w=1001",
    "b2_c6_h5_w34/layout=strided,times_c=2,times_w=2",
    "b2_c6_h5_w34/layout=permuted,times_c=3,times_h=5",
    "b1_c0_h3_w4/times_h=3",
)
_TIMED_REPEATS = (
    "b1_c1_h8192_w4096/times_h=8192",
    "b1_c64_h1024_w128/times_c=8",
    "b1_c1_h8192_w4096/times_w=4096",
)

REPEAT_BACK = Kernel(
    name="repeat_back",
    description="Adds up the copies of an array that lie beside each other, as the gradient of"
    " repeat does, the same bits every time.",
    group="move",
    dims=DIMS,
    bindings=(
        declare_input("x", _TAKEN, DIMS, "copies, side by side along each dimension"),
        declare_output("y", ("f32",), DIMS, "their sum, as large as one of them"),
    ),
    params={
        **{
            f"times_{dim}": Param(default=1, least=1, description=f"copies along {dim}")
            for dim in DIMS
        },
        "layout": places.LAYOUT,
    },
    forms=Forms(layout=lay_out_repeated, empty=DIMS),
    variants=(
        portable(
            "repeat_back",
            launch_repeated,
            "f32",
            arguments=lambda types: (types["x"],),
            refuses=refuse_many,
        ),
    ),
    inputs=lambda problem: {"x": data.bell(problem, "x")},
    check=Check(reference=add_repeated),
    work=Work(flops=lambda problem: prod(problem.shape.values())),
    cases=CaseList(lambda: _cases("repeat_back", _TAKEN, _REPEATS)),
    timed=CaseList(lambda: _cases("repeat_back", ("f32",), _TIMED_REPEATS)),
)


def launch_rows(problem: Problem, device: DeviceFacts) -> Launch:
    """A workgroup for each stretch of each row of the result."""
    m, n, k = problem.shape.values()
    groups = grid(m * -(-k // (COLUMNS * THREADS)))
    x, ids, y = (problem.layout(name) for name in ("x", "ids", "y"))
    words = problem.item_bytes("ids") // 4
    push: Push = {
        "columns": k,
        "rows": n,
        "table_rows": m,
        "x_offset": x.offset,
        "x_stride": x.strides[0],
        "ids_offset": ids.offset * words,
        "id_words": words,
        "y_offset": y.offset,
        "y_stride": y.strides[0],
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push)


def add_rows(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = quants.dequantise(problem.types["x"], inputs["x"]).astype(np.float64)
    y = np.zeros(problem.array_shape("y"))
    np.add.at(y, inputs["ids"].astype("i8"), x)
    return {"y": y if rows is None else y[rows]}


_ROWS = (
    "m1_n1_k1",
    "m4_n5_k33",
    "m7_n1025_k5",
    "m101_n13_k1031",
    "m3_n300_k130/layout=strided",
    "m5_n0_k9",
)

GET_ROWS_BACK = Kernel(
    name="get_rows_back",
    description="Adds up rows by numbers, in their order, the same bits every time, as the"
    " gradient of get_rows does: y[m] = sum of x[n] over all n with ids[n] = m.",
    group="index",
    dims=("m", "n", "k"),
    bindings=(
        declare_input("x", _TAKEN, ("n", "k"), "rows"),
        declare_input(
            "ids", ("i32", "i64"), ("n",), "where rows go, 0 to m - 1; others count for nothing"
        ),
        declare_output("y", ("f32",), ("m", "k"), "sums, and zeros where no row goes"),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=rows.layout, empty=("n",)),
    variants=(
        portable("get_rows_back", launch_rows, "f32", arguments=lambda types: (types["x"],)),
    ),
    inputs=lambda problem: {
        "x": data.bell(problem, "x"),
        "ids": data.indices(problem, "ids", problem.shape["m"]),
    },
    check=Check(reference=add_rows, rows="m"),
    work=Work(flops=lambda problem: problem.shape["n"] * problem.shape["k"]),
    cases=CaseList(
        lambda: (
            *_cases("get_rows_back", _TAKEN, _ROWS),
            *_cases("get_rows_back", ("f32:ids=i64", "f16:ids=i64"), _ROWS[1:2]),
        )
    ),
    timed=CaseList(
        lambda: _cases("get_rows_back", _TAKEN, ("m32000_n512_k4096", "m128_n65536_k1024"))
    ),
)


def _cases(name: str, formats: tuple[str, ...], shapes: tuple[str, ...]) -> Iterator[Case]:
    return (parse(f"{name}/{fmt}/{shape}") for fmt in formats for shape in shapes)


MOVE_GRADIENTS = (REPEAT_BACK, GET_ROWS_BACK)
