"""Sums by number: scatter_add and index_add, in an order, so that the same bits come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Binding,
    Launch,
    Memory,
    Problem,
    Stage,
    Variant,
    each_once,
    grid,
)
from vkbench_shaders.kernels.moves.indexed import (
    ABOUT_IDS,
    IDS,
    SHARE,
    SMALL,
    TABLE,
    TAKEN,
    cases_of,
    exist,
    indexed_arrays,
    indexed_inputs,
    kernel,
    refuse_large_scratch,
    timed_of,
)
from vkbench_shaders.kernels.moves.mapping import THREADS, groups_of
from vkbench_shaders.launch import power_of_two
from vkbench_shaders.quantisers import quants

SUMMERS = 256  # threads of a workgroup that sums
ROOM = 2048  # words of a workgroup's sums
MOST_TILE = 32  # columns of a workgroup
MANY = 2048  # columns that are enough threads
_MORE = ("bf16", "i32", "f64")  # with few cases
_SUMMED = ("f32", "f16", *_MORE)
_LARGEST = 1000.0  # of f64 that are added up: greater ones would hide the others


def bindings(ids: tuple[str, ...]) -> tuple[Binding, ...]:
    """What is added to, what is added where, and the sums."""
    return (
        declare_input("base", _SUMMED, TABLE, "what is added to"),
        declare_input("x", _SUMMED, TAKEN, "items", same_as="base"),
        declare_input("ids", IDS, ids, ABOUT_IDS),
        declare_output("y", _SUMMED, TABLE, "sums", same_as="base"),
    )


def name_struct(types: Mapping[str, str]) -> tuple[str, ...]:
    """The Slang type of the format and its sums."""
    own = {"i32": "integers", "f64": "doubles"}
    return (own.get(types["y"], f"singles<number_{types['y']}>"),)


def sum_bytes(problem: Problem) -> int:
    """Bytes of a sum: those of f32 at least."""
    return max(4, problem.item_bytes("y"))


def is_in_y(problem: Problem) -> bool:
    """Whether y can hold sums."""
    return problem.item_bytes("y") >= 4


def sum_by_number(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y, x = (_numbers(problem, inputs[name]) for name in ("base", "x"))
    ids = inputs["ids"]
    if ids.ndim == 1:
        ids = np.broadcast_to(ids[:, None], x.shape)
    there = exist(problem, ids)
    o, _, k = np.nonzero(there)
    np.add.at(y, (o, ids[there].astype("i8"), k), x[there])
    return {"y": y}


def _numbers(problem: Problem, stored: Array) -> Array:
    """Integers as they are, whose sums wrap around; others in float64."""
    fmt = problem.types["y"]
    return stored.copy() if fmt == "i32" else quants.dequantise(fmt, stored)


def tile(problem: Problem) -> int:
    """Columns of a workgroup that sums."""
    return min(MOST_TILE, power_of_two(problem.shape["k"]))


def has_many(problem: Problem) -> bool:
    """Whether there are enough columns side by side to give each to a thread."""
    o, _, _, k = problem.shape.values()
    tiles = o * -(-k // tile(problem))
    return (k >= MOST_TILE and o * k >= MANY) or tiles > MOST_GROUPS


def spread(problem: Problem) -> tuple[int, int, int]:
    """Workgroups that sum: ranges of m, tiles of columns, segments of n."""
    o, m, n, k = problem.shape.values()
    columns = tile(problem)
    room = ROOM * 4 // sum_bytes(problem)
    ranges, tiles = -(-m * columns // room), o * -(-k // columns)
    steps = n * columns // (4 * SUMMERS)  # four at least of a segment
    return ranges, tiles, max(1, min(512 // (ranges * tiles), steps, 4 * n // m))


def summing(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    return by_columns(problem) if has_many(problem) else by_ranges(problem)


def by_columns(problem: Problem) -> tuple[Launch, ...]:
    """Sums are made in y, or put there at the end if its items are too small for them."""
    o, _, n, k = problem.shape.values()
    begin = Launch(
        groups=(groups := groups_of(problem)),
        push=indexed_arrays(problem, groups[0], "base", "m"),
        constants={"THREADS": THREADS},
        entry="begin",
    )
    launches = [_along_n(problem, SHARE // THREADS * o * k, "columns")]
    if not is_in_y(problem):
        fetch, put = (_along_n(problem, o * n * k, entry) for entry in ("fetch", "put"))
        launches = [fetch, *launches, put]
    return tuple(_with(launch, 1, n) for launch in (begin, *launches))


def by_ranges(problem: Problem) -> tuple[Launch, ...]:
    """Sums of one segment that y can hold are made in one go."""
    n, groups = problem.shape["n"], spread(problem)
    stretch = -(-n // groups[2])
    sums = Launch(
        groups=groups,
        push=indexed_arrays(problem, 0, "base"),
        constants={"TILE": tile(problem)},
        entry="sums",
    )
    words = -(-prod(problem.array_shape("y")) * problem.item_bytes("y") // 4)
    combine = Launch(
        groups=(zeroing := grid(-(-words // SHARE))),
        push=indexed_arrays(problem, zeroing[0], "base", "m"),
        constants={"THREADS": THREADS},
        entry="combine",
    )
    alone = groups[2] == 1 and is_in_y(problem)
    return tuple(_with(launch, groups[2], stretch) for launch in (sums, combine)[: 2 - alone])


def _along_n(problem: Problem, items: int, entry: str) -> Launch:
    groups = grid(-(-items // SHARE))
    push = indexed_arrays(problem, groups[0], "base")
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS}, entry=entry)


def _with(launch: Launch, segments: int, stretch: int) -> Launch:
    return replace(launch, push={**launch.push, "segments": segments, "stretch": stretch})


def singles(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums of each segment, or those that y cannot hold."""
    segments = 1 if has_many(problem) else spread(problem)[2]
    in_y = segments == 1 and is_in_y(problem)
    return (4 if in_y else sum_bytes(problem) * segments * prod(problem.array_shape("y")),)


def inputs(problem: Problem) -> dict[str, Array]:
    """Items, and their numbers; no f64 is so large that its square is infinite."""
    made = indexed_inputs(problem)
    if problem.types["y"] == "f64":
        for name in ("base", "x"):
            np.clip(made[name], -_LARGEST, _LARGEST, out=made[name])
    return made


def _variant(name: str, arithmetic: str, formats: tuple[str, ...], *requires: str) -> Variant:
    return Variant(
        name=name,
        module="accumulate",
        launch=summing,
        arithmetic=arithmetic,
        entry="sums",
        arguments=name_struct,
        accepts=lambda types: types["y"] in formats,
        requires=requires,
        refuses=refuse_large_scratch(singles),
        more=tuple(
            Stage(entry=entry, arguments=name_struct)
            for entry in ("combine", "begin", "fetch", "columns", "put")
        ),
        own=Memory(scratch=singles),
    )


_VARIANTS = (
    _variant("portable", "f32", ("f32", "f16", "bf16")),
    _variant("integers", "exact", ("i32",)),
    _variant("fp64", "f64", ("f64",), "fp64"),
)
_SHAPES = (*SMALL, (1, 7, 9, 2100), (2, 3000, 700, 2), (1, 50, 5000, 1))
_FEW_SHAPES = ((3, 17, 40, 33), (1, 7, 9, 2100), (1, 50, 5000, 1))


SCATTER_ADD = kernel(
    "scatter_add",
    "Adds to items along any dimension by their numbers, in the order of n, the same bits every"
    " time: y = base, and then y[o, ids[o, n, k], k] += x[o, n, k].",
    bindings(TAKEN),
    _VARIANTS,
    sum_by_number,
    cases_of("scatter_add", _SUMMED[:2], _SHAPES, _MORE, _FEW_SHAPES),
    timed_of(
        "scatter_add",
        _SUMMED[:2],
        [(1, 32000, 512, 4096), (1, 4096, 1 << 20, 1), (4096, 4096, 2048, 1)],
    ),
    each_once,
)

INDEX_ADD = kernel(
    "index_add",
    "Adds to items along any dimension by numbers that are the same for all others, in the order of"
    " n, the same bits every time: y = base, and then y[o, ids[n], k] += x[o, n, k].",
    bindings(("n",)),
    _VARIANTS,
    sum_by_number,
    cases_of("index_add", _SUMMED[:2], _SHAPES, _MORE, _FEW_SHAPES),
    timed_of("index_add", _SUMMED[:2], [(1, 32000, 512, 4096), (1, 4096, 1 << 20, 1)]),
    each_once,
)

INDEX_SUMS = tuple(replace(adding, inputs=inputs) for adding in (SCATTER_ADD, INDEX_ADD))
