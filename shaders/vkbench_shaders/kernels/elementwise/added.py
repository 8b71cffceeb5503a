"""Additions of ggml that are no plain sum of two arrays: a number to all, a bias by number."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from vkbench.case import Case, parse
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
from vkbench_shaders.kernels.elementwise import binary, broadcast, strided
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor

_THREADS = 128
_SLOTS = 4  # of a thread of add_id.slang
_SUMS = binary.OPERATIONS[0]


def _launch_biases(problem: Problem, device: DeviceFacts) -> Launch:
    """A launch by vec4s where all rows begin and end at whole ones, else by numbers."""
    n, u, m, e = (problem.shape[dim] for dim in "nume")
    x, biases, ids = (problem.layout(name) for name in ("x", "biases", "ids"))
    begins = (x.offset, *x.strides[:2], biases.offset, biases.strides[0])
    slot_items = 1 if any(number % 4 for number in (m, *begins)) else 4
    slots = n * u * (m // slot_items)
    groups = grid(-(-slots // (_THREADS * _SLOTS)))
    x_offset, x_n, x_u, biases_offset, biases_stride = (number // slot_items for number in begins)
    return Launch(
        groups=groups,
        push={
            "count": slots,
            "columns": divisor(max(m // slot_items, 1)),
            "used": divisor(max(u, 1)),
            "biases": e,
            "x_offset": x_offset,
            "x_n": x_n,
            "x_u": x_u,
            "biases_offset": biases_offset,
            "biases_stride": biases_stride,
            "ids_offset": ids.offset,
            "ids_stride": ids.strides[0],
            "groups_x": groups[0],
        },
        constants={"THREADS": _THREADS, "WIDE": int(slot_items == 4)},
    )


def _lay_rows(problem: Problem, binding: str) -> Layout:
    """y has no gaps; other rows lie by the parameter `layout`."""
    if binding == "y":
        return Layout.contiguous(problem.full_shape(binding))
    return rows.layout(problem, binding)


def _add_biases(problem: Problem, inputs: Arrays, sampled: Array | None) -> dict[str, Array]:
    ids = inputs["ids"]
    there = (ids >= 0) & (ids < problem.shape["e"])
    biases = inputs["biases"].astype(np.float64)[np.where(there, ids, 0)]
    return {"y": inputs["x"] + np.where(there[:, :, None], biases, 0.0)}


def _list_ids(shapes: tuple[tuple[int, ...], ...], how: str = "contiguous") -> Iterator[Case]:
    return rows.list_cases("add_id", "f32", {}, "nume", shapes, how)


ADD_ID = Kernel(
    name="add_id",
    description="Adds a row to each row by number, as experts have biases: y[n, u] = x[n, u] +"
    " biases[ids[n, u]], and x[n, u] for numbers that biases do not have.",
    group="binary",
    dims=("n", "u", "m", "e"),
    bindings=(
        declare_input("x", ("f32",), ("n", "u", "m"), "rows, u of each token"),
        declare_input("biases", ("f32",), ("e", "m"), "rows to add"),
        declare_input("ids", ("i32",), ("n", "u"), "which of them is added"),
        declare_output("y", ("f32",), ("n", "u", "m"), "sums"),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=_lay_rows, empty=("n",)),
    variants=(portable("add_id", _launch_biases, "f32_each"),),
    inputs=lambda problem: {
        **{name: data.uniform(problem, name, -4, 4) for name in ("x", "biases")},
        "ids": data.indices(problem, "ids", problem.shape["e"]),
    },
    check=Check(reference=_add_biases),
    work=Work(
        flops=lambda problem: prod(problem.array_shape("y")),
        bytes_moved=lambda problem: _count_moved(problem),
    ),
    cases=CaseList(
        lambda: (
            *_list_ids(
                ((1, 1, 1, 1), (5, 2, 33, 4), (33, 4, 64, 8), (129, 1, 132, 3), (0, 2, 5, 3))
            ),
            *_list_ids(((5, 3, 33, 4), (7, 2, 64, 5)), "strided"),
        )
    ),
    timed=CaseList(lambda: _list_ids(((1, 4, 2880, 32), (512, 4, 2880, 32), (512, 4, 2880, 128)))),
)


def _count_moved(problem: Problem) -> int:
    """Bytes that have to be moved: of biases those that some row takes."""
    n, u, m, e = (problem.shape[dim] for dim in "nume")
    return 4 * (2 * n * u * m + min(e, n * u) * m + n * u)


def _lay_number(problem: Problem, binding: str) -> Layout:
    """b is one number; others lie by the parameter `layout`."""
    full = problem.full_shape(binding)
    if binding == "b":
        full = tuple(min(size, 1) for size in full)
    return strided.lay_out_array(problem, binding, full)


_ADD1_CASES = (
    *("b1_c1_h1_w1", "b3_c1_h17_w129", "b2_c5_h31_w61/layout=permuted"),
    *("b3_c5_h7_w33/layout=strided", "b3_c5_h7_w9/values=special", "b2_c0_h5_w7"),
)
_ADD1_FORMATS = ("f32", "f16:b=f16")
_ADD1_MIXED = ("f32:b=f16", "f16")

ADD1 = Kernel(
    name="add1",
    description="Adds one number of an array to all of another one: y = a + b[0].",
    group="binary",
    dims=strided.DIMS,
    bindings=(
        declare_input("a", ("f32", "f16"), strided.DIMS, "numbers"),
        declare_input("b", ("f32", "f16"), strided.DIMS, "one number: each size is 1"),
        declare_output("y", ("f32", "f16"), strided.DIMS, "sums, of f16 from f32", same_as="a"),
    ),
    params={"layout": strided.LAYOUT, "values": data.VALUES},
    forms=Forms(empty=strided.DIMS, layout=_lay_number, infer=broadcast.infer),
    variants=(
        portable(
            "binary",
            lambda problem, device: strided.launch(problem),
            "exact",
            arguments=lambda types: ("Add", *(types[name] for name in "aby")),
        ),
    ),
    inputs=binary.ordinary,
    check=Check(reference=binary.reference(_SUMS)),
    work=Work(flops=lambda problem: prod(problem.full_shape("y"))),
    cases=CaseList(
        lambda: (
            *(parse(f"add1/{fmt}/{rest}") for fmt in _ADD1_FORMATS for rest in _ADD1_CASES),
            *(parse(f"add1/{fmt}/{rest}") for fmt in _ADD1_MIXED for rest in _ADD1_CASES[1:3]),
        )
    ),
    timed=CaseList(
        lambda: (parse(f"add1/{fmt}/b1_c1_h4096_w4096") for fmt in ("f32", "f16:b=f16"))
    ),
)

ADDED = (ADD_ID, ADD1)
