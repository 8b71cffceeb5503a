"""add: element-wise sum of four-dimensional arrays, however they lie in memory."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Variant,
    grid,
)

DIMS = ("b", "c", "h", "w")
THREADS = 128
EACH = 4  # elements a thread

# which dimensions b has; it is repeated along the others
BROADCAST = {"none": "bchw", "scalar": "", "row": "w", "channel": "c", "batch": "chw"}
# strided: rows with a gap behind them, after an offset
GAPS = {"a": 3, "b": 1, "y": 2}
OFFSETS = {"a": 5, "b": 2, "y": 7}
# permuted: the order in which each array's dimensions lie in memory, outermost first
ORDERS = {"a": "bhwc", "b": "bcwh", "y": "cbhw"}


def shape_of(problem: Problem, binding: str) -> tuple[int, ...]:
    kept = BROADCAST[str(problem.params["broadcast"])] if binding == "b" else "bchw"
    return tuple(problem.shape[dim] if dim in kept else 1 for dim in DIMS)


def layout(problem: Problem, binding: str) -> Layout:
    shape = shape_of(problem, binding)
    match problem.params["layout"]:
        case "strided":
            return _strided(shape, GAPS[binding], OFFSETS[binding])
        case "permuted":
            return _permuted(shape, ORDERS[binding])
        case _:
            return Layout.contiguous(shape)


def _strided(shape: tuple[int, ...], gap: int, offset: int) -> Layout:
    padded = Layout.contiguous((*shape[:-1], shape[-1] + gap))
    return Layout(
        shape=shape, strides=padded.strides, offset=offset, storage=offset + padded.storage
    )


def _permuted(shape: tuple[int, ...], order: str) -> Layout:
    size = dict(zip(DIMS, shape, strict=True))
    stored = Layout.contiguous([size[dim] for dim in order])
    stride = dict(zip(order, stored.strides, strict=True))
    return Layout(shape=shape, strides=tuple(stride[dim] for dim in DIMS), storage=stored.storage)


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    sizes = shape_of(problem, "y")
    groups = grid(-(-prod(sizes) // (THREADS * EACH)))
    layouts = [problem.layout(name) for name in "aby"]
    strides = [
        0 if size == 1 else stride
        for lay in layouts
        for size, stride in zip(lay.shape, lay.strides, strict=True)
    ]
    flat = problem.params["layout"] == "contiguous" and shape_of(problem, "b") == sizes
    offsets = [lay.offset for lay in layouts]
    push = struct.pack("<21I", *sizes, *strides, *offsets, flat, groups[0])
    return Launch(groups=groups, push=push, constants={0: THREADS})


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    return {"y": inputs["a"].astype(np.float64) + inputs["b"].astype(np.float64)}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """a has the sum's shape; b's must fit the parameter broadcast."""
    if len(shapes["a"]) != 4:
        raise UsageError(f"a has four dimensions (b, c, h, w), got {len(shapes['a'])}")
    return dict(zip(DIMS, shapes["a"], strict=True))


_SHAPES = (
    "b1_c1_h1_w1",
    "b1_c1_h1_w5",
    "b2_c3_h5_w7",
    "b1_c4_h32_w64",
    "b3_c1_h17_w129",
    "b2_c5_h31_w61",
)

ADD = Kernel(
    name="add",
    description="Adds two arrays, the second one repeated to the shape of the first: y = a + b.",
    group="binary",
    dims=DIMS,
    bindings=(
        Binding(name="a", access="in", types=("f32",), dims=DIMS, description="first summand"),
        Binding(
            name="b",
            access="in",
            types=("f32",),
            dims=DIMS,
            description="second one, size 1 where repeated",
        ),
        Binding(name="y", access="out", types=("f32",), dims=DIMS, description="sum"),
    ),
    params={
        "broadcast": Param(
            default="none",
            choices=tuple(BROADCAST),
            description="what b is: like a, a number, a row, a number a channel, one of the batch",
        ),
        "layout": Param(
            default="contiguous",
            choices=("contiguous", "strided", "permuted"),
            description="how arrays lie: without gaps, rows with gaps, dimensions exchanged",
        ),
    },
    layout=layout,
    variants=(
        Variant(
            name="portable",
            module="add",
            entry="add",
            arguments=lambda types: (),
            launch=launch,
            path="f32",
        ),
    ),
    inputs=lambda problem: {name: data.plain(problem, name) for name in "ab"},
    reference=reference,
    flops=lambda problem: prod(shape_of(problem, "y")),
    infer=infer,
    cases=(
        *(parse(f"add/f32/{shape}") for shape in _SHAPES),
        *(
            parse(f"add/f32/b2_c3_h5_w7/broadcast={how}")
            for how in ("batch", "channel", "row", "scalar")
        ),
        *(
            parse(f"add/f32/{shape}/layout={how}")
            for shape in _SHAPES
            for how in ("permuted", "strided")
        ),
        *(
            parse(f"add/f32/b3_c5_h7_w33/broadcast={broadcast},layout={how}")
            for broadcast in ("batch", "channel", "row", "scalar")
            for how in ("permuted", "strided")
        ),
    ),
    timed=(
        parse("add/f32/b1_c1_h4096_w4096"),
        parse("add/f32/b1_c1_h4096_w4096/broadcast=row"),
        parse("add/f32/b4_c16_h256_w256/layout=permuted"),
    ),
)
