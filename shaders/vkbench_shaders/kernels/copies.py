"""Copies: arrays without their gaps, with dimensions exchanged, or of one value or sequence."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from math import prod

import numpy as np

from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench_shaders import data, quants
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Stage,
    Variant,
    grid,
)
from vkbench_shaders.kernels import moves, places, rows
from vkbench_shaders.kernels.division import divisor
from vkbench_shaders.kernels.moves import SAME, SHARE, THREADS, TYPES, Axis, item_bytes
from vkbench_shaders.kernels.places import DIMS

SIDE = 64  # of a tile that is turned, in items
_WIDER = (*TYPES, "bf16", "i32")
_TURNING = Stage(entry="transpose", module="transpose", arguments=item_bytes)


def turned(problem: Problem, axes: list[Axis], to: list[int], along: int) -> Launch:
    """A launch that turns what is side by side in x, the axis `along`; `to` are strides of y."""
    b, c = (place for place in range(3) if place != along)
    i, j = axes[along], axes[3]
    tiles = [-(-axis.size // SIDE) for axis in (i, j)]
    groups = grid(axes[b].size * axes[c].size * prod(tiles))
    offset = problem.layout("x").offset
    x = offset, axes[b].stride, axes[c].stride, j.stride
    y = to[b], to[c], to[along]
    aligned = (all(number % 4 == 0 for number in numbers) for numbers in (x, (*y, j.size)))
    divisors = (word for n in (prod(tiles), tiles[1], axes[c].size) for word in divisor(n))
    push = struct.pack(
        "<22I", i.size, j.size, *divisors, *x, *y, axes[b].size * axes[c].size, *aligned, groups[0]
    )
    return Launch(groups=groups, push=push, entry="transpose")


def copied(problem: Problem, x: Layout) -> Launch:
    """A launch that copies x's items to y without gaps, by rows or by tiles."""
    shape = problem.array_shape("y")
    axes = moves.merged(
        [
            Axis(size=size, source=size, stride=stride)
            for size, stride in zip(shape, x.strides, strict=True)
        ]
    )
    along = next((n for n in range(3) if axes[n].stride == 1 and axes[n].size > 1), 3)
    if axes[3].stride == 1 or along == 3:
        return moves.mapped(problem, SAME)
    to = [prod(axis.size for axis in axes[place + 1 :]) for place in range(4)]
    return turned(problem, axes, to, along)


def cont_layout(problem: Problem, binding: str) -> Layout:
    """x's dimensions lie in memory in the order that the parameter says, and may have gaps."""
    shape = problem.full_shape(binding)
    if binding == "y":
        return Layout.contiguous(shape)
    order = [DIMS.index(dim) for dim in str(problem.params["order"])]
    stored = rows.strided([shape[axis] for axis in order], *_GAPS[str(problem.params["layout"])])
    strides = [stored.strides[order.index(axis)] for axis in range(4)]
    return Layout(shape=shape, strides=tuple(strides), offset=stored.offset, storage=stored.storage)


_GAPS = {"contiguous": (0, 0), "strided": (5, 3)}
_ORDERS = tuple("".join(order) for order in permutations(DIMS))
Change = Mapping[str, Value]

CONT = Kernel(
    name="cont",
    description="Copies an array whose items lie in any order to one without gaps: y = x.",
    group="copy",
    dims=DIMS,
    bindings=(
        Binding(name="x", access="in", types=_WIDER, dims=DIMS, description="any items"),
        Binding(
            name="y",
            access="out",
            types=_WIDER,
            dims=DIMS,
            same_as="x",
            description="the same, row after row",
        ),
    ),
    params={
        "order": Param(
            default="bchw",
            choices=_ORDERS,
            description="dimensions in the order in which they lie in x, outermost first",
        ),
        "layout": rows.LAYOUT,
    },
    layout=cont_layout,
    variants=(
        Variant(
            name="portable",
            module="mapped",
            entry="mapped",
            arguments=item_bytes,
            launch=lambda problem, device: copied(problem, problem.layout("x")),
            path="exact",
            more=(_TURNING,),
        ),
    ),
    inputs=lambda problem: {"x": data.plain(problem, "x")},
    reference=lambda problem, inputs, rows: {"y": np.ascontiguousarray(inputs["x"])},
    flops=lambda problem: 0,
    cases=(
        *moves.listed("cont", _WIDER, [(1, 1, 1, 1), (2, 3, 67, 130)], [{}, {"order": "bcwh"}]),
        *moves.listed("cont", TYPES, [(2, 3, 5, 67)], [{"layout": "strided"}]),
        *moves.listed("cont", TYPES, [(2, 65, 3, 68)], [{"order": "bwhc", "layout": "strided"}]),
        *moves.listed("cont", TYPES, [(2, 64, 3, 128), (2, 72, 2, 2)], [{"order": "bwhc"}]),
        *moves.listed("cont", ("f32",), [(2, 3, 5, 7)], [{"order": how} for how in _ORDERS[1:]]),
        *moves.listed("cont", ("f32", "f16"), [(1, 33, 65, 100)], [{"order": "bhcw"}]),
    ),
    timed=(
        *moves.listed(
            "cont",
            ("f32", "f16"),
            [(1, 1024, 64, 64), (1, 2304, 64, 64), (1, 2048, 512, 64)],
            [{"order": "bwhc"}],
        ),
        *moves.listed("cont", ("f32", "f16"), [(1, 1, 8192, 4096)], [{"layout": "strided"}]),
        *moves.listed("cont", ("f32", "f16"), [(1, 32, 4096, 128)], [{"order": "bhcw"}]),
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
    return turned(problem, axes, [0, h * w, h, 1], 2)


def _transposes(
    formats: Iterable[str], shapes: Iterable[tuple[int, ...]], how: str = "contiguous"
) -> Iterator[Case]:
    for fmt in formats:
        yield from rows.listed("transpose", fmt, {}, "bhw", shapes, how)


_MATRICES = ((1, 1, 1), (1, 64, 64), (2, 128, 68), (3, 67, 130), (1, 5, 1027), (1, 200, 3))

TRANSPOSE = Kernel(
    name="transpose",
    description="Turns rows into columns: y[b, i, j] = x[b, j, i].",
    group="copy",
    dims=("b", "h", "w"),
    bindings=(
        Binding(name="x", access="in", types=_WIDER, dims=("b", "h", "w"), description="matrices"),
        Binding(
            name="y",
            access="out",
            types=_WIDER,
            dims=("b", "w", "h"),
            same_as="x",
            description="the same, turned",
        ),
    ),
    params={"layout": rows.LAYOUT},
    layout=transpose_layout,
    variants=(
        Variant(
            name="portable",
            module="transpose",
            entry="transpose",
            arguments=item_bytes,
            launch=transpose,
            path="exact",
        ),
    ),
    inputs=lambda problem: {"x": data.plain(problem, "x")},
    reference=lambda problem, inputs, rows: {
        "y": np.ascontiguousarray(inputs["x"].transpose(0, 2, 1))
    },
    flops=lambda problem: 0,
    cases=(
        *_transposes(TYPES, _MATRICES),
        *_transposes(TYPES, [(2, 66, 131)], "strided"),
        *_transposes(_WIDER[4:], [(2, 66, 131)]),
    ),
    timed=(
        *_transposes(("f32", "f16"), [(1, 4096, 4096), (1, 256, 786432), (256, 1024, 768)]),
        *_transposes(("bf16", "u8"), [(1, 4096, 4096)]),
        *_transposes(("f16",), [(1, 4095, 4097)]),
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
    push = struct.pack(
        "<10I", *divisor(fours), h, w * unit, x_begin, x_stride, y_begin, y_stride, groups[0]
    )
    return Launch(groups=groups, push=push, constants={0: THREADS})


def _rows(
    formats: Iterable[str], shapes: Iterable[tuple[int, ...]], how: str = "contiguous"
) -> Iterator[Case]:
    for fmt in formats:
        yield from rows.listed("copy2d", fmt, {}, "hw", shapes, how)


COPY2D = Kernel(
    name="copy2d",
    description="Copies rows between arrays whose rows are a stride apart: y[h] = x[h].",
    group="copy",
    dims=("h", "w"),
    bindings=(
        Binding(name="x", access="in", types=TYPES, dims=("h", "w"), description="any items"),
        Binding(
            name="y",
            access="out",
            types=TYPES,
            dims=("h", "w"),
            same_as="x",
            description="the same; what lies between its rows stays as it is",
        ),
    ),
    params={"layout": rows.LAYOUT},
    layout=rows.layout,
    variants=(
        Variant(
            name="portable",
            module="copy2d",
            entry="copy2d",
            arguments=lambda types: (),
            launch=copy2d,
            path="exact",
        ),
    ),
    inputs=lambda problem: {"x": data.plain(problem, "x")},
    reference=lambda problem, inputs, rows: {"y": inputs["x"]},
    flops=lambda problem: 0,
    rows="",
    cases=(
        *_rows(TYPES, [(1, 1), (3, 5), (7, 130), (67, 1023)]),
        *_rows(TYPES, [(1, 1), (3, 5), (7, 130), (67, 1023)], "strided"),
    ),
    timed=(
        *_rows(("f32", "f16"), [(4096, 4096)]),
        *_rows(("f32", "f16"), [(4096, 4096), (32768, 512)], "strided"),
    ),
)

_FILLED = ("f32", "f16", "bf16", "i32", "i64", "u8")


def fill(problem: Problem, device: DeviceFacts) -> Launch:
    size = problem.shape["n"] * problem.item_bytes("y")
    groups = grid(-(-size // SHARE))
    pattern = np.resize(value_of(problem), 8).tobytes()[:8]
    return Launch(
        groups=groups,
        push=pattern + struct.pack("<2I", size, groups[0]),
        constants={0: THREADS},
    )


def value_of(problem: Problem) -> Array:
    """The one item that all of y are."""
    value = np.array([float(problem.params.get("value", 0.0))])
    fmt = problem.format("y")
    if fmt.name[0] in "iu":
        return value.astype(fmt.dtype)
    return quants.quantise(fmt.name, value)


def filler(name: str, description: str, params: Mapping[str, Param], change: Change) -> Kernel:
    """A kernel that sets all of y to one value."""

    def cases(formats: Iterable[str], shapes: Iterable[int]) -> tuple[Case, ...]:
        return tuple(
            Case(kernel=name, format=fmt, shape={"n": n}, params=change)
            for fmt in formats
            for n in shapes
        )

    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        return {"y": np.repeat(value_of(problem), problem.shape["n"])}

    return Kernel(
        name=name,
        description=description,
        group="copy",
        dims=("n",),
        bindings=(
            Binding(name="y", access="out", types=_FILLED, dims=("n",), description="the array"),
        ),
        params=params,
        variants=(
            Variant(
                name="portable",
                module="fill",
                entry="fill",
                arguments=lambda types: (),
                launch=fill,
                path="exact",
            ),
        ),
        inputs=lambda problem: {},
        reference=reference,
        flops=lambda problem: 0,
        empty=("n",),
        cases=cases(_FILLED, (0, 1, 2, 3, 5, 31, 127, 4097, 65537)),
        timed=cases(("f32", "f16"), (1 << 24, 1 << 27)),
    )


ZEROS = filler("zeros", "Sets all items to zero: y = 0.", {}, {})
FILL = filler(
    "fill",
    "Sets all items to one value: y = value.",
    {"value": Param(default=1.0, description="the value; its whole part in an integer format")},
    {"value": -3.25},
)

_SEQUENCES = {"f32": "nearest", "f16": "nearest_half", "i32": "integer"}


def arange(problem: Problem, device: DeviceFacts) -> Launch:
    kind = "i" if problem.types["y"] == "i32" else "f"
    start, step = (float(problem.params[name]) for name in ("start", "step"))
    groups = grid(-(-problem.shape["n"] * problem.item_bytes("y") // (THREADS * 16)))
    numbers = struct.pack(f"<2{kind}", *((int(start), int(step)) if kind == "i" else (start, step)))
    return Launch(
        groups=groups,
        push=numbers + struct.pack("<2I", problem.shape["n"], groups[0]),
        constants={0: THREADS},
    )


def sequence(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """In float64: products of a single and an index are exact there."""
    start, step = (float(problem.params[name]) for name in ("start", "step"))
    numbers = np.arange(problem.shape["n"])
    if problem.types["y"] == "i32":
        return {"y": (int(start) + numbers * int(step)).astype(np.int32)}
    return {"y": float(np.float32(start)) + numbers * float(np.float32(step))}


def _sequences(formats: Iterable[str], shapes: Iterable[int], change: Change) -> Iterator[Case]:
    for fmt in formats:
        for n in shapes:
            yield Case(kernel="arange", format=fmt, shape={"n": n}, params=change)


ARANGE = Kernel(
    name="arange",
    description="Numbers a step apart, each of them rounded once: y[i] = start + i * step.",
    group="copy",
    dims=("n",),
    bindings=(
        Binding(
            name="y", access="out", types=tuple(_SEQUENCES), dims=("n",), description="the numbers"
        ),
    ),
    params={
        "start": Param(default=0.0, description="the first one, as f32; whole for i32"),
        "step": Param(default=1.0, description="from one to the next, as f32; whole for i32"),
    },
    variants=(
        Variant(
            name="portable",
            module="arange",
            entry="arange",
            arguments=lambda types: (_SEQUENCES[types["y"]],),
            launch=arange,
            path="exact",
        ),
    ),
    inputs=lambda problem: {},
    reference=sequence,
    flops=lambda problem: 2 * problem.shape["n"],
    empty=("n",),
    cases=(
        *_sequences(_SEQUENCES, (0, 1, 3, 513, 40001), {}),
        *_sequences(("f32", "f16"), (10, 65537), {"start": -1000.1, "step": 0.03}),
        *_sequences(("f32",), (1 << 20,), {"start": 3.7, "step": -1.1}),
        *_sequences(("i32",), (5000,), {"start": 5.0, "step": -700001.0}),
    ),
    timed=tuple(_sequences(("f32", "f16"), (1 << 20, 1 << 26), {})),
)

COPIES = (COPY2D, CONT, TRANSPOSE, ZEROS, FILL, ARANGE)
