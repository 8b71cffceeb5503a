"""Copies: arrays without their gaps, with dimensions exchanged, or of one value or sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Push,
    Stage,
    Work,
    grid,
)
from vkbench_shaders.kernels.moves import mapping
from vkbench_shaders.kernels.moves.mapping import (
    ANY_TYPES,
    MORE_TYPES,
    SAME,
    SHARE,
    THREADS,
    TYPES,
    Axis,
    item_bytes,
)
from vkbench_shaders.kernels.shared import places, rows
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor

SIDE = 64  # of a tile that is turned, in items
_TURNING = Stage(entry="transpose", module="transpose", arguments=item_bytes)


def launch_turn(problem: Problem, axes: list[Axis], to: list[int], along: int) -> Launch:
    """A launch that turns what is side by side in x, the axis `along`; `to` are strides of y."""
    b, c = (place for place in range(3) if place != along)
    i, j = axes[along], axes[3]
    tiles = [-(-axis.size // SIDE) for axis in (i, j)]
    groups = grid(axes[b].size * axes[c].size * prod(tiles))
    offset = problem.layout("x").offset
    x = {"x_offset": offset, "x_b": axes[b].stride, "x_c": axes[c].stride, "x_j": j.stride}
    y = {"y_b": to[b], "y_c": to[c], "y_i": to[along]}
    push: Push = {
        "i_size": i.size,
        "j_size": j.size,
        "tiles": divisor(max(prod(tiles), 1)),
        "j_tiles": divisor(max(tiles[1], 1)),
        "c": divisor(max(axes[c].size, 1)),
        **x,
        **y,
        "matrices": axes[b].size * axes[c].size,
        "x_aligned": all(number % 4 == 0 for number in x.values()),
        "y_aligned": all(number % 4 == 0 for number in (*y.values(), j.size)),
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, entry="transpose")


def launch_copy(problem: Problem, x: Layout) -> Launch:
    """A launch that copies x's items to y without gaps, by rows or by tiles."""
    shape = problem.array_shape("y")
    axes = mapping.merge_axes(
        [
            Axis(size=size, source=size, stride=stride)
            for size, stride in zip(shape, x.strides, strict=True)
        ]
    )
    along = next((n for n in range(3) if axes[n].stride == 1 and axes[n].size > 1), 3)
    if axes[3].stride == 1 or along == 3:
        return mapping.launch_map(problem, SAME)
    to = [prod(axis.size for axis in axes[place + 1 :]) for place in range(4)]
    return launch_turn(problem, axes, to, along)


def cont_layout(problem: Problem, binding: str) -> Layout:
    """x's dimensions lie in memory in the order that the parameter says, and may have gaps."""
    shape = problem.full_shape(binding)
    if binding == "y":
        return Layout.contiguous(shape)
    order = [DIMS.index(dim) for dim in str(problem.params["order"])]
    return Layout.in_order(shape, order, *_GAPS[str(problem.params["layout"])])


_GAPS = {"contiguous": (0, 0), "strided": (5, 3)}
_ORDERS = tuple("".join(order) for order in permutations(DIMS))

CONT = Kernel(
    name="cont",
    description="Copies an array whose items lie in any order to one without gaps: y = x.",
    group="copy",
    dims=DIMS,
    bindings=(
        declare_input("x", ANY_TYPES, DIMS, "any items"),
        declare_output("y", ANY_TYPES, DIMS, "the same, row after row", same_as="x"),
    ),
    params={
        "order": Param(
            default="bchw",
            choices=_ORDERS,
            description="dimensions in the order in which they lie in x, outermost first",
        ),
        "layout": rows.LAYOUT,
    },
    forms=Forms(layout=cont_layout, empty=DIMS),
    variants=(
        portable(
            "mapped",
            lambda problem, device: launch_copy(problem, problem.layout("x")),
            "exact",
            arguments=item_bytes,
            more=(_TURNING,),
        ),
    ),
    inputs=lambda problem: {"x": data.plain_values(problem, "x")},
    check=Check(reference=lambda problem, inputs, rows: {"y": np.ascontiguousarray(inputs["x"])}),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(
        lambda: (
            *mapping.list_cases(
                "cont",
                (*TYPES, "bf16", "i32"),
                [(1, 1, 1, 1), (2, 3, 67, 130)],
                [{}, {"order": "bcwh"}],
            ),
            *mapping.list_cases(
                "cont", ("u32", "f64", "i16"), [(2, 3, 67, 13)], [{"order": "bcwh"}]
            ),
            *mapping.list_cases("cont", TYPES, [(2, 3, 5, 67)], [{"layout": "strided"}]),
            *mapping.list_cases(
                "cont", TYPES, [(2, 65, 3, 68)], [{"order": "bwhc", "layout": "strided"}]
            ),
            *mapping.list_cases(
                "cont", TYPES, [(2, 64, 3, 128), (2, 72, 2, 2)], [{"order": "bwhc"}]
            ),
            *mapping.list_cases(
                "cont", ("f32",), [(2, 3, 5, 7)], [{"order": how} for how in _ORDERS[1:]]
            ),
            *mapping.list_cases("cont", ("f32",), [(2, 3, 0, 7)], [{}, {"order": "bcwh"}]),
            *mapping.list_cases("cont", ("f32", "f16"), [(1, 33, 65, 100)], [{"order": "bhcw"}]),
        )
    ),
    timed=CaseList(
        lambda: (
            *mapping.list_cases(
                "cont",
                ("f32", "f16"),
                [(1, 1024, 64, 64), (1, 2304, 64, 64), (1, 2048, 512, 64)],
                [{"order": "bwhc"}],
            ),
            *mapping.list_cases(
                "cont", ("f32", "f16"), [(1, 1, 8192, 4096)], [{"layout": "strided"}]
            ),
            *mapping.list_cases("cont", ("f32", "f16"), [(1, 32, 4096, 128)], [{"order": "bhcw"}]),
        )
    ),
)


def transpose_layout(problem: Problem, binding: str) -> Layout:
    """x may have gaps; y has none."""
    shape = problem.full_shape(binding)
    return Layout.contiguous(shape) if binding == "y" else rows.layout(problem, binding)


def transpose(problem: Problem, device: DeviceFacts) -> Launch:
    b, h, w = problem.shape.values()
    stride = problem.layout("x").strides
    axes = [
        Axis(size=1, source=1),
        Axis(size=b, source=b, stride=stride[0]),
        Axis(size=w, source=w, stride=1),
        Axis(size=h, source=h, stride=stride[1]),
    ]
    return launch_turn(problem, axes, [0, h * w, h, 1], 2)


def _transposes(
    formats: Iterable[str], shapes: Iterable[tuple[int, ...]], how: str = "contiguous"
) -> Iterator[Case]:
    for fmt in formats:
        yield from rows.list_cases("transpose", fmt, {}, "bhw", shapes, how)


_MATRICES = ((1, 1, 1), (1, 64, 64), (2, 128, 68), (3, 67, 130), (1, 5, 1027), (1, 200, 3))

TRANSPOSE = Kernel(
    name="transpose",
    description="Turns rows into columns: y[b, i, j] = x[b, j, i].",
    group="copy",
    dims=("b", "h", "w"),
    bindings=(
        declare_input("x", ANY_TYPES, ("b", "h", "w"), "matrices"),
        declare_output("y", ANY_TYPES, ("b", "w", "h"), "the same, turned", same_as="x"),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=transpose_layout, empty=("b", "h", "w")),
    variants=(portable("transpose", transpose, "exact", arguments=item_bytes),),
    inputs=lambda problem: {"x": data.plain_values(problem, "x")},
    check=Check(
        reference=lambda problem, inputs, rows: {
            "y": np.ascontiguousarray(inputs["x"].transpose(0, 2, 1))
        },
    ),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(
        lambda: (
            *_transposes(TYPES, _MATRICES),
            *_transposes(("f32",), [(2, 0, 5)]),
            *_transposes(TYPES, [(2, 66, 131)], "strided"),
            *_transposes(MORE_TYPES, [(2, 66, 131)]),
        )
    ),
    timed=CaseList(
        lambda: (
            *_transposes(("f32", "f16"), [(1, 4096, 4096), (1, 256, 786432), (256, 1024, 768)]),
            *_transposes(("bf16", "u8"), [(1, 4096, 4096)]),
            *_transposes(("f16",), [(1, 4095, 4097)]),
        )
    ),
)


def copy2d(problem: Problem, device: DeviceFacts) -> Launch:
    h, w = problem.shape.values()
    unit = problem.item_bytes("x")
    x, y = (problem.layout(name) for name in "xy")
    if places.is_flat(x) and places.is_flat(y):
        h, w = 1, h * w
    (x_begin, x_stride), (y_begin, y_stride) = (
        (n.offset * unit, n.strides[0] * unit) for n in (x, y)
    )
    anywhere = y_begin % 16 != 0 or (y_stride % 16 != 0 and h > 1)
    fours = -(-w * unit // 16) + anywhere
    groups = grid(-(-h * fours * 16 // SHARE))
    push: Push = {
        "fours": divisor(max(fours, 1)),
        "rows": h,
        "row_bytes": w * unit,
        "x_offset": x_begin,
        "x_stride": x_stride,
        "y_offset": y_begin,
        "y_stride": y_stride,
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def _rows(
    formats: Iterable[str], shapes: Iterable[tuple[int, ...]], how: str = "contiguous"
) -> Iterator[Case]:
    for fmt in formats:
        yield from rows.list_cases("copy2d", fmt, {}, "hw", shapes, how)


COPY2D = Kernel(
    name="copy2d",
    description="Copies rows between arrays whose rows are a stride apart: y[h] = x[h].",
    group="copy",
    dims=("h", "w"),
    bindings=(
        declare_input("x", ANY_TYPES, ("h", "w"), "any items"),
        declare_output(
            "y",
            ANY_TYPES,
            ("h", "w"),
            "the same; what lies between its rows stays as it is",
            same_as="x",
        ),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=rows.layout, empty=("h", "w")),
    variants=(portable("copy2d", copy2d, "exact"),),
    inputs=lambda problem: {"x": data.plain_values(problem, "x")},
    check=Check(reference=lambda problem, inputs, rows: {"y": inputs["x"]}),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(
        lambda: (
            *_rows(("f32",), [(0, 5), (3, 0)], "strided"),
            *_rows(TYPES, [(1, 1), (3, 5), (7, 130), (67, 1023)]),
            *_rows(TYPES, [(1, 1), (3, 5), (7, 130), (67, 1023)], "strided"),
            *_rows(MORE_TYPES, [(3, 5)], "strided"),
        )
    ),
    timed=CaseList(
        lambda: (
            *_rows(("f32", "f16"), [(4096, 4096)]),
            *_rows(("f32", "f16"), [(4096, 4096), (32768, 512)], "strided"),
        )
    ),
)

COPIES = (COPY2D, CONT, TRANSPOSE)
