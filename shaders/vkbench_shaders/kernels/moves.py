"""Moves: arrays joined, repeated, padded, rolled, their items' bits untouched.

Each is a map from the indices of an item of the result to those of where it comes from: see
slang/mapped.slang.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import data
from vkbench_shaders.formats import format_named
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
from vkbench_shaders.kernels import places
from vkbench_shaders.kernels.division import divisor
from vkbench_shaders.kernels.places import DIMS

TYPES = ("f32", "f16", "u8", "i64")  # items of 4, 2, 1 and 8 bytes
THREADS = 128
SHARE = THREADS * 4 * 16  # bytes of y that a workgroup makes
SAME, AROUND, MIRRORED, OUTSIDE = range(4)  # how indices are mapped


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A dimension of the result, and where its indices point to."""

    size: int
    source: int  # size of x
    added: int = 0  # to an index of y, for one of x
    stride: int = 0  # of x

    @property
    def is_whole(self) -> bool:
        return self.size == self.source and self.added % max(self.source, 1) == 0


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """The same in as few dimensions as will do, and ones of one index before them: four."""
    found = [axes[-1]]
    for axis in reversed(axes[:-1]):
        joined = _joined(axis, found[0])
        found[:1] = [joined] if joined else [axis, found[0]]
    return [Axis(size=1, source=1)] * (4 - len(found)) + found


def _joined(outer: Axis, inner: Axis) -> Axis | None:
    if inner.size == inner.source == 1:
        return outer
    beside = outer.stride == inner.stride * inner.source or outer.size == outer.source == 1
    if not inner.is_whole or not beside:
        return None
    return Axis(
        size=outer.size * inner.size,
        source=outer.source * inner.size,
        added=outer.added * inner.size,
        stride=inner.stride,
    )


def item_bytes(types: Mapping[str, str]) -> tuple[str, ...]:
    """The generic argument: bytes of an item, all that counts of a format here."""
    return (str(format_named(next(iter(types.values()))).bytes),)


def groups_of(problem: Problem, binding: str = "y") -> tuple[int, int, int]:
    """Workgroups that make an array without gaps."""
    size = prod(problem.array_shape(binding)) * problem.item_bytes(binding)
    return grid(-(-size // SHARE))


def mapped(problem: Problem, kind: int, added: Sequence[int] = (0, 0, 0, 0)) -> Launch:
    """A launch that maps the indices of y to those of x."""
    x, y = problem.layout("x"), problem.array_shape("y")
    axes = merged(
        [
            Axis(size=size, source=source, added=more, stride=stride)
            for size, source, more, stride in zip(y, x.shape, added, x.strides, strict=True)
        ]
    )
    groups = groups_of(problem)
    push = struct.pack(
        "<9I",
        *(axis.stride for axis in axes),
        x.offset,
        *(axis.added % (max(axis.source, 1) if kind == AROUND else 1 << 32) for axis in axes),
    )
    sizes = struct.pack("<12I", *(word for a in axes for word in divisor(max(a.source, 1))))
    return Launch(
        groups=groups,
        push=places.sizes([axis.size for axis in axes])
        + push
        + sizes
        + struct.pack("<I", groups[0]),
        constants={0: THREADS, 1: kind},
    )


def numbers(problem: Problem, name: str) -> tuple[int, int, int, int]:
    """The parameters NAME_b, NAME_c, NAME_h and NAME_w."""
    b, c, h, w = (int(problem.params[f"{name}_{dim}"]) for dim in DIMS)
    return b, c, h, w


def params(name: str, default: int, description: str, least: int | None = None) -> dict[str, Param]:
    return {
        f"{name}_{dim}": Param(default=default, least=least, description=f"{description} {dim}")
        for dim in DIMS
    }


def layout(
    shape: Callable[[Problem], Sequence[int]],
) -> Callable[[Problem, str], Layout]:
    """y has a shape of its own and no gaps; x lies by the parameter `layout`."""

    def found(problem: Problem, binding: str) -> Layout:
        return (
            Layout.contiguous(shape(problem)) if binding == "y" else places.layout(problem, binding)
        )

    return found


def mover(
    name: str,
    description: str,
    shape: Callable[[Problem], Sequence[int]],
    launch: Callable[[Problem], Launch],
    moved: Callable[[Problem, Array], Array],
    own: Mapping[str, Param],
    cases: tuple[Case, ...],
    timed: tuple[Case, ...],
) -> Kernel:
    """A kernel that makes y of x by a map of indices."""

    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        return {"y": np.ascontiguousarray(moved(problem, inputs["x"]))}

    return Kernel(
        name=name,
        description=description,
        group="move",
        dims=DIMS,
        bindings=(
            Binding(name="x", access="in", types=TYPES, dims=DIMS, description="any items"),
            Binding(
                name="y",
                access="out",
                types=TYPES,
                dims=DIMS,
                same_as="x",
                description="items of x in their new places",
            ),
        ),
        params={**own, "layout": places.LAYOUT},
        layout=layout(shape),
        variants=(
            Variant(
                name="portable",
                module="mapped",
                entry="mapped",
                arguments=item_bytes,
                launch=lambda problem, device: launch(problem),
                path="exact",
            ),
        ),
        inputs=lambda problem: {"x": data.plain(problem, "x")},
        reference=reference,
        flops=lambda problem: 0,
        cases=cases,
        timed=timed,
    )


Change = Mapping[str, Value]
Sizes = tuple[int, int, int, int]


def listed(
    kernel: str,
    formats: Iterable[str],
    shapes: Iterable[Sizes],
    changes: Iterable[Change] = ({},),
) -> tuple[Case, ...]:
    """Cases of these formats, sizes and parameters."""
    return tuple(
        Case(kernel=kernel, format=fmt, shape=dict(zip(DIMS, sizes, strict=True)), params=change)
        for fmt in formats
        for sizes in shapes
        for change in changes
    )


_LYING: tuple[Change, ...] = ({"layout": "strided"}, {"layout": "permuted"})
_LARGE: Sizes = (1, 1, 4096, 4096)


def _with(change: Change, others: Iterable[Change] = _LYING) -> list[Change]:
    return [{**change, **other} for other in others]


def repeat_shape(problem: Problem) -> Sequence[int]:
    times = numbers(problem, "times")
    return [n * problem.shape[dim] for n, dim in zip(times, DIMS, strict=True)]


_REPEATED: Change = {"times_b": 2, "times_c": 3, "times_h": 2, "times_w": 3}

REPEAT = mover(
    "repeat",
    "Repeats an array along each dimension: y[i] = x[i mod size of x].",
    repeat_shape,
    lambda problem: mapped(problem, AROUND),
    lambda problem, x: np.tile(x, numbers(problem, "times")),
    params("times", 1, "how often x is there along", least=1),
    (
        *listed("repeat", TYPES, [(1, 1, 1, 1), (2, 1, 3, 7), (1, 2, 5, 130)], [_REPEATED]),
        *listed("repeat", TYPES, [(2, 3, 5, 1)], [{"times_w": 67}]),
        *listed("repeat", TYPES, [(1, 3, 5, 67)], [{"times_b": 5, "times_h": 7}]),
        *listed("repeat", TYPES, [(2, 3, 5, 17)], _with({"times_c": 2, "times_w": 2})),
        *listed("repeat", ("f32",), [(1, 1, 1, 4)], [{"times_w": 5003}]),
    ),
    (
        *listed("repeat", ("f32", "f16"), [(1, 1, 1, 4096)], [{"times_h": 8192}]),
        *listed("repeat", ("f32", "f16"), [(1, 1, 8192, 1)], [{"times_w": 4096}]),
        *listed("repeat", ("f32", "f16"), [(1, 8, 1024, 128)], [{"times_c": 8}]),
    ),
)


def pad_shape(problem: Problem) -> Sequence[int]:
    before, after = numbers(problem, "before"), numbers(problem, "after")
    others = any(before[:3]) or any(after[:3])
    mirrored = problem.params["mode"] == "reflect"
    if mirrored and (others or max(before[3], after[3]) >= problem.shape["w"]):
        raise UsageError("pad reflects along w alone, and less than w items")
    return [problem.shape[dim] + before[i] + after[i] for i, dim in enumerate(DIMS)]


_PADS = {"zeros": OUTSIDE, "circular": AROUND, "reflect": MIRRORED}
_Mode = Literal["constant", "wrap", "reflect"]
_NUMPY: Mapping[str, _Mode] = {"zeros": "constant", "circular": "wrap", "reflect": "reflect"}


def pad(problem: Problem) -> Launch:
    before = numbers(problem, "before")
    return mapped(problem, _PADS[str(problem.params["mode"])], [-n for n in before])


def padded(problem: Problem, x: Array) -> Array:
    widths = list(zip(numbers(problem, "before"), numbers(problem, "after"), strict=True))
    return np.pad(x, widths, _NUMPY[str(problem.params["mode"])])


_AROUND = [f"{side}_{dim}" for side in ("after", "before") for dim in DIMS]
_ALL_ROUND: Change = dict(zip(_AROUND, (1, 0, 2, 5, 1, 2, 1, 3), strict=True))
_SIDES: Change = {"before_w": 2, "after_w": 4}
_MIRROR: Change = {"mode": "reflect", **_SIDES}

PAD = mover(
    "pad",
    "Puts an array between zeros, copies of itself (circular), or itself mirrored at both ends of"
    " w (reflect, which pads w alone, by less than its size).",
    pad_shape,
    pad,
    padded,
    {
        **params("before", 0, "items in front of", least=0),
        **params("after", 0, "items behind", least=0),
        "mode": Param(default="zeros", choices=tuple(_PADS), description="what is put around x"),
    },
    (
        *listed("pad", TYPES, [(1, 1, 1, 1), (2, 1, 3, 7), (1, 2, 5, 130)], [_ALL_ROUND]),
        *listed("pad", TYPES, [(1, 1, 3, 67)], [{"mode": "circular", **_ALL_ROUND}, _MIRROR]),
        *listed("pad", TYPES, [(2, 3, 5, 67)], _with(_ALL_ROUND)),
        *listed("pad", ("f32",), [(1, 3, 64, 67)], [{"after_h": 9}, {"before_w": 301}]),
        *listed("pad", ("f32",), [(1, 1, 80, 512)], [{**_MIRROR, "before_w": 200}]),
    ),
    (
        *listed("pad", ("f32", "f16"), [_LARGE], [{"after_h": 64, "after_w": 64}]),
        *listed("pad", ("f32",), [(1, 3, 512, 512)], [{"after_h": 16, "after_w": 16}]),
        *listed("pad", ("f32",), [_LARGE], [{"mode": "circular", **_SIDES}]),
        *listed("pad", ("f32",), [(1, 1, 384, 3000)], [_MIRROR]),
    ),
)


def roll(problem: Problem) -> Launch:
    return mapped(problem, AROUND, [-n for n in numbers(problem, "shift")])


_SHIFTED: Change = {"shift_b": 1, "shift_c": -1, "shift_h": 2, "shift_w": 5}

ROLL = mover(
    "roll",
    "Shifts an array along each dimension, around its ends: y[i + shift] = x[i].",
    lambda problem: [problem.shape[dim] for dim in DIMS],
    roll,
    lambda problem, x: np.roll(x, numbers(problem, "shift"), (0, 1, 2, 3)),
    params("shift", 0, "places forward along"),
    (
        *listed("roll", TYPES, [(1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 5, 130)], [_SHIFTED]),
        *listed("roll", TYPES, [(2, 3, 5, 67)], _with(_SHIFTED)),
        *listed("roll", ("f32",), [(1, 3, 64, 67)], [{"shift_h": -9}, {"shift_w": 1000}]),
    ),
    (
        *listed("roll", ("f32", "f16"), [_LARGE], [{"shift_h": 7}, {"shift_w": 3}]),
        *listed("roll", ("f32",), [_LARGE], [{"shift_w": 4}]),
    ),
)


def concat_shape(problem: Problem) -> list[int]:
    axis = DIMS.index(str(problem.params["axis"]))
    return [
        problem.shape[dim] + (problem.shape["n"] if i == axis else 0) for i, dim in enumerate(DIMS)
    ]


def concat_layout(problem: Problem, binding: str) -> Layout:
    shape = concat_shape(problem)
    if binding == "y":
        return Layout.contiguous(shape)
    axis = DIMS.index(str(problem.params["axis"]))
    shape[axis] = problem.shape["n" if binding == "b" else DIMS[axis]]
    return places.lying(problem, binding, shape)


def concat(problem: Problem, device: DeviceFacts) -> Launch:
    axis = DIMS.index(str(problem.params["axis"]))
    y, a, b = (problem.layout(name) for name in "yab")
    inner = prod(y.shape[axis + 1 :])
    if all(places.is_flat(found) for found in (a, b)):  # rows of a and of b by turns
        y, a, b = (
            Layout.contiguous((1, 1, prod(n.shape[:axis]), n.shape[axis] * inner))
            for n in (y, a, b)
        )
        axis = 3
    groups = groups_of(problem)
    push = places.sizes(y.shape) + places.place(a) + places.place(b)
    push += struct.pack("<2I", a.shape[axis], groups[0])
    return Launch(groups=groups, push=push, constants={0: THREADS, 1: axis})


def concat_sizes(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """The dimensions of a, and of b the one in which they differ: w where they do not."""
    for name in "ab":
        if len(shapes[name]) != 4:
            raise UsageError(f"{name} has four dimensions (b, c, h, w), got {len(shapes[name])}")
    differ = [i for i in range(4) if shapes["a"][i] != shapes["b"][i]]
    return {
        **dict(zip(DIMS, shapes["a"], strict=True)),
        "n": shapes["b"][differ[-1] if differ else 3],
    }


def _concats(
    formats: Iterable[str],
    shapes: Iterable[tuple[int, ...]],
    how: str = "contiguous",
    axes: Iterable[str] = DIMS,
) -> Iterator[Case]:
    for axis in axes:
        given = {"axis": axis, "layout": how}
        params = {name: value for name, value in given.items() if value not in ("w", "contiguous")}
        for fmt in formats:
            for sizes in shapes:
                shape = dict(zip("bchwn", sizes, strict=True))
                yield Case(kernel="concat", format=fmt, shape=shape, params=params)


CONCAT = Kernel(
    name="concat",
    description="Joins two arrays along a dimension: b behind a.",
    group="move",
    dims=(*DIMS, "n"),
    bindings=(
        Binding(name="a", access="in", types=TYPES, dims=DIMS, description="any items"),
        Binding(
            name="b",
            access="in",
            types=TYPES,
            dims=DIMS,
            same_as="a",
            description="others, n along the axis",
        ),
        Binding(
            name="y", access="out", types=TYPES, dims=DIMS, same_as="a", description="all of them"
        ),
    ),
    params={
        "axis": Param(default="w", choices=DIMS, description="the dimension they are joined along"),
        "layout": places.LAYOUT,
    },
    layout=concat_layout,
    variants=(
        Variant(
            name="portable",
            module="concat",
            entry="concat",
            arguments=item_bytes,
            launch=concat,
            path="exact",
        ),
    ),
    inputs=lambda problem: {name: data.plain(problem, name) for name in "ab"},
    reference=lambda problem, inputs, rows: {
        "y": np.concatenate([inputs["a"], inputs["b"]], DIMS.index(str(problem.params["axis"])))
    },
    flops=lambda problem: 0,
    infer=concat_sizes,
    cases=(
        *_concats(TYPES, [(1, 1, 1, 1, 1), (2, 3, 5, 67, 4), (1, 3, 17, 130, 9)]),
        *_concats(TYPES, [(2, 3, 5, 19, 7)], "strided"),
        *_concats(TYPES, [(2, 3, 5, 19, 7)], "permuted"),
    ),
    timed=(
        *_concats(("f32", "f16"), [(4, 32, 128, 1024, 64)], axes="cw"),
        *_concats(("f32",), [(1, 1, 4096, 4096, 3)], axes="hw"),
    ),
)

MOVES = (CONCAT, REPEAT, PAD, ROLL)
