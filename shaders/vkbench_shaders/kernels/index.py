"""Items taken and set by their numbers along a dimension, the same bits every time.

Arrays have three dimensions, which stand for any: o counts all of them before the one that is
indexed, k all behind it. Numbers that an array does not have read zeros and set nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders import data, quants
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Layout,
    Problem,
    Stage,
    Variant,
    grid,
    too_large,
)
from vkbench_shaders.kernels import moves, places
from vkbench_shaders.kernels.moves import THREADS, TYPES
from vkbench_shaders.kernels.rows import LAYOUT, layout, listed

DIMS = ("o", "m", "n", "k")
SHARE = THREADS * 4  # items that a workgroup goes through
SUMMERS = 256  # threads of a workgroup that sums
ROOM = 2048  # sums of a workgroup
MOST_TILE = 32  # columns of a workgroup
MANY = 2048  # columns that are enough threads
_ODD = (-1, 1 << 20, 1 << 31, (1 << 32) + 1)  # numbers that no case has, but for one that wraps
_ODD_EVERY = 37


def bindings(
    x: tuple[str, ...], ids: tuple[str, ...], y: tuple[str, ...], types: tuple[str, ...]
) -> tuple[Binding, ...]:
    """Items, their numbers, and where they come: in that order, or y first if it is changed."""
    changed = "m" in y
    first, last = ("y", "x") if changed else ("x", "y")
    found = {
        "x": Binding(
            name="x", access="in", types=types, dims=x, same_as=changed * "y", description="items"
        ),
        "ids": Binding(
            name="ids",
            access="in",
            types=("i32", "i64"),
            dims=ids,
            description="numbers, 0 to m - 1; others count for nothing",
        ),
        "y": Binding(
            name="y",
            access="inout" if changed else "out",
            types=types,
            dims=y,
            same_as="" if changed else first,
            description="the array that changes" if changed else "items, or zeros",
        ),
    }
    names = (first, last, "ids") if changed else (first, "ids", last)
    return tuple(found[name] for name in names)


def lying(problem: Problem, binding: str) -> Layout:
    """By the parameter `layout`; what is made anew has no gaps."""
    if problem.kernel.binding(binding).access == "out":
        return Layout.contiguous(problem.full_shape(binding))
    return layout(problem, binding)


def ids_of(problem: Problem) -> Array:
    """Numbers below m, and a few that are not."""
    ids = data.indices(problem, "ids", problem.shape["m"]).reshape(-1)
    odd = np.array(_ODD, "i8").astype(ids.dtype)
    places = ids[5::_ODD_EVERY]
    places[:] = np.resize(odd, places.size)
    return ids.reshape(problem.array_shape("ids"))


def exist(problem: Problem, ids: Array) -> Array:
    return np.asarray((ids >= 0) & (ids < problem.shape["m"]))


def indexed(problem: Problem, groups_x: int) -> bytes:
    """A shader's Indexed."""
    o, m, n, k = problem.shape.values()
    ids = problem.layout("ids")
    if len(ids.shape) == 1:  # the same for all o and k
        ids = Layout(shape=(o, n, k), strides=(0, 1, 0), offset=ids.offset, storage=ids.storage)
    x, y = (places.place(problem.layout(name)) for name in "xy")
    words = problem.item_bytes("ids") // 4
    found = places.sizes((1, o, n, k)) + x + places.place(ids) + y
    return found + struct.pack("<3I", m, words, groups_x)


def item_bytes(types: Mapping[str, str]) -> tuple[str, ...]:
    """The generic argument of what only moves items."""
    return (str(format_named(types["x"]).bytes),)


def number(types: Mapping[str, str]) -> tuple[str, ...]:
    """That of what adds them."""
    return (f"number_{types['y']}",)


def launched(problem: Problem, items: int, entry: str = "") -> Launch:
    """A launch over so many items."""
    groups = grid(-(-items // SHARE))
    return Launch(
        groups=groups, push=indexed(problem, groups[0]), constants={0: THREADS}, entry=entry
    )


def index_select(problem: Problem, device: DeviceFacts) -> Launch:
    groups = moves.groups_of(problem)
    return Launch(groups=groups, push=indexed(problem, groups[0]), constants={0: THREADS})


def gather(problem: Problem, device: DeviceFacts) -> Launch:
    return launched(problem, prod(problem.array_shape("y")))


def scatter(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    items = prod(problem.array_shape("x"))
    return tuple(launched(problem, items, entry) for entry in ("forget", "claim", "scatter"))


def taken(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """x along its second dimension by ids, which has one dimension or three."""
    x, ids = inputs["x"], inputs["ids"]
    if ids.ndim == 1:
        ids = np.broadcast_to(ids[:, None], (len(x), len(ids), x.shape[2]))
    there = exist(problem, ids)
    found = np.take_along_axis(x, np.where(there, ids, 0).astype("i8"), 1)
    return {"y": np.where(there, found, np.zeros(1, x.dtype))}


def scattered(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """One after the other along n, so that the last one stays."""
    y, x, ids = inputs["y"].copy(), inputs["x"], inputs["ids"]
    o, k = np.ogrid[: len(x), : x.shape[2]]
    for n in range(x.shape[1]):
        there = exist(problem, ids[:, n])
        at = np.where(there, ids[:, n], 0)
        y[o, at, k] = np.where(there, x[:, n], y[o, at, k])
    return {"y": y}


def summed(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y, x = (quants.dequantise(problem.types["y"], inputs[name]) for name in "yx")
    ids = inputs["ids"]
    if ids.ndim == 1:
        ids = np.broadcast_to(ids[:, None], x.shape)
    there = exist(problem, ids)
    o, _, k = np.nonzero(there)
    np.add.at(y, (o, ids[there].astype("i8"), k), x[there])
    return {"y": y}


def last_bytes(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """For each item of y, which one of x is its last."""
    return (4 * prod(problem.array_shape("y")),)


def tile(problem: Problem) -> int:
    """Columns of a workgroup that sums."""
    return min(MOST_TILE, 1 << (problem.shape["k"] - 1).bit_length())


def has_many(problem: Problem) -> bool:
    """Whether there are enough columns to give each to a thread."""
    return problem.shape["o"] * problem.shape["k"] >= MANY


def spread(problem: Problem) -> tuple[int, int, int]:
    """Workgroups that sum: ranges of m, tiles of columns, segments of n."""
    o, m, n, k = problem.shape.values()
    columns = tile(problem)
    ranges, tiles = -(-m * columns // ROOM), o * -(-k // columns)
    steps = n * columns // (4 * SUMMERS)  # four at least of a segment
    return ranges, tiles, max(1, min(512 // (ranges * tiles), steps, 4 * n // m))


def summing(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    o, m, n, k = problem.shape.values()
    if has_many(problem):
        ways = (("fetch", o * n * k), ("columns", SHARE // THREADS * o * k), ("put", o * n * k))
        return tuple(_with(launched(problem, items, entry), 1, n) for entry, items in ways)
    groups = spread(problem)
    stretch = -(-n // groups[2])
    sums = Launch(
        groups=groups,
        push=indexed(problem, 0),
        constants={0: THREADS, 1: tile(problem)},
        entry="sums",
    )
    combine = launched(problem, o * m * k, "combine")
    return tuple(_with(launch, groups[2], stretch) for launch in (sums, combine))


def _with(launch: Launch, segments: int, stretch: int) -> Launch:
    return replace(launch, push=launch.push + struct.pack("<2I", segments, stretch))


def singles(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """y as singles, or sums for it, of each segment."""
    segments = 1 if has_many(problem) else spread(problem)[2]
    return (4 * segments * prod(problem.array_shape("y")),)


def crowded(
    scratch: Callable[[Problem, DeviceFacts], tuple[int, ...]],
) -> Callable[[Problem, DeviceFacts], str | None]:
    """Refuses what is too large, scratch included."""

    def refuses(problem: Problem, device: DeviceFacts) -> str | None:
        most = device.limits.get("max_storage_range")
        needed = max(scratch(problem, device))
        if most is not None and needed > most:
            return f"scratch has {needed} bytes, the device binds {most} at most"
        return too_large(problem, device)

    return refuses


def touched(problem: Problem) -> int:
    """Bytes of the numbers, and of items twice: where they are and where they come."""
    sizes = problem.array_shape("x" if "n" in problem.kernel.binding("x").dims else "y")
    ids = prod(problem.array_shape("ids")) * problem.item_bytes("ids")
    return ids + 2 * prod(sizes) * problem.item_bytes("x")


def kernel(
    name: str,
    description: str,
    bindings: tuple[Binding, ...],
    variant: Variant,
    reference: Callable[[Problem, Arrays, Array | None], dict[str, Array]],
    cases: Iterable[Case],
    timed: Iterable[Case],
) -> Kernel:
    """What all of them have in common."""
    return Kernel(
        name=name,
        description=description,
        group="index",
        dims=DIMS,
        bindings=bindings,
        params={"layout": LAYOUT},
        layout=lying,
        variants=(variant,),
        inputs=lambda problem: {
            binding.name: ids_of(problem)
            if binding.name == "ids"
            else data.plain(problem, binding.name)
            for binding in problem.kernel.bindings
            if binding.is_input
        },
        reference=reference,
        flops=lambda problem: 0,
        bytes_moved=touched,
        cases=tuple(cases),
        timed=tuple(timed),
    )


def _cases(name: str, formats: Iterable[str], shapes: Iterable[tuple[int, ...]]) -> Iterator[Case]:
    """By both kinds of numbers, and of rows."""
    for fmt in formats:
        yield from listed(name, fmt, {}, DIMS, shapes)
        yield from listed(name, fmt, {"ids": "i64"}, DIMS, [(2, 5, 70, 3)])
        yield from listed(name, fmt, {}, DIMS, [(2, 5, 70, 33)], "strided")


def _timed(name: str, formats: Iterable[str], shapes: Iterable[tuple[int, ...]]) -> Iterator[Case]:
    for fmt in formats:
        yield from listed(name, fmt, {}, DIMS, shapes)


_X, _TAKEN = ("o", "m", "k"), ("o", "n", "k")
_SMALL = ((1, 1, 1, 1), (2, 5, 7, 3), (1, 101, 300, 1), (3, 17, 40, 33), (1, 9, 11, 1030))
_SUMMED = ("f32", "f16")

INDEX_SELECT = kernel(
    "index_select",
    "Takes items along any dimension by numbers that are the same for all others:"
    " y[o, n, k] = x[o, ids[n], k], and 0 for numbers that x does not have.",
    bindings(_X, ("n",), _TAKEN, TYPES),
    Variant(
        name="portable",
        module="index_select",
        entry="index_select",
        arguments=item_bytes,
        launch=index_select,
        path="exact",
    ),
    taken,
    _cases("index_select", TYPES, _SMALL),
    _timed(
        "index_select",
        ("f32", "f16"),
        [(1, 32000, 512, 4096), (4096, 4096, 2048, 1), (64, 1024, 512, 128)],
    ),
)

GATHER = kernel(
    "gather",
    "Takes items along any dimension by numbers of their own: y[o, n, k] = x[o, ids[o, n, k], k],"
    " and 0 for numbers that x does not have.",
    bindings(_X, _TAKEN, _TAKEN, TYPES),
    Variant(
        name="portable",
        module="gather",
        entry="gather",
        arguments=item_bytes,
        launch=gather,
        path="exact",
    ),
    taken,
    _cases("gather", TYPES, _SMALL),
    _timed("gather", ("f32", "f16"), [(4096, 4096, 2048, 1), (1, 32000, 512, 4096)]),
)

SCATTER = kernel(
    "scatter",
    "Sets items along any dimension by their numbers: y[o, ids[o, n, k], k] = x[o, n, k]; of"
    " several for one item the last along n stays, and others of y stay as they are.",
    bindings(_TAKEN, _TAKEN, _X, TYPES),
    Variant(
        name="portable",
        module="scatter",
        entry="scatter",
        arguments=item_bytes,
        launch=scatter,
        path="exact",
        more=(Stage(entry="forget"), Stage(entry="claim")),
        scratch=last_bytes,
        refuses=crowded(last_bytes),
    ),
    scattered,
    _cases("scatter", TYPES, _SMALL),
    _timed("scatter", ("f32", "f16"), [(4096, 4096, 2048, 1), (1, 32000, 512, 4096)]),
)

_ADDING = Variant(
    name="portable",
    module="accumulate",
    entry="sums",
    arguments=number,
    launch=summing,
    path="f32",
    more=tuple(
        Stage(entry=entry, arguments=number) for entry in ("combine", "fetch", "columns", "put")
    ),
    scratch=singles,
    refuses=crowded(singles),
)

SCATTER_ADD = kernel(
    "scatter_add",
    "Adds to items along any dimension by their numbers, in the order of n, the same bits every"
    " time: y[o, ids[o, n, k], k] += x[o, n, k].",
    bindings(_TAKEN, _TAKEN, _X, _SUMMED),
    _ADDING,
    summed,
    _cases("scatter_add", _SUMMED, (*_SMALL, (1, 7, 9, 2100), (2, 3000, 700, 2), (1, 50, 5000, 1))),
    _timed(
        "scatter_add",
        _SUMMED,
        [(1, 32000, 512, 4096), (1, 4096, 1 << 20, 1), (4096, 4096, 2048, 1)],
    ),
)

INDEX_ADD = kernel(
    "index_add",
    "Adds to items along any dimension by numbers that are the same for all others, in the order of"
    " n, the same bits every time: y[o, ids[n], k] += x[o, n, k].",
    bindings(_TAKEN, ("n",), _X, _SUMMED),
    _ADDING,
    summed,
    _cases("index_add", _SUMMED, (*_SMALL, (1, 7, 9, 2100), (2, 3000, 700, 2), (1, 50, 5000, 1))),
    _timed("index_add", _SUMMED, [(1, 32000, 512, 4096), (1, 4096, 1 << 20, 1)]),
)

INDEX = (INDEX_SELECT, GATHER, SCATTER, SCATTER_ADD, INDEX_ADD)
