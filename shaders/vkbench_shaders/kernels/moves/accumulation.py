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
    kernel,
    refuse_large_scratch,
    timed_of,
)
from vkbench_shaders.kernels.moves.mapping import THREADS, groups_of
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import power_of_two
from vkbench_shaders.quantisers import quants

SUMMERS = 256  # threads of a workgroup that sums
ROOM = 2048  # sums of a workgroup
MOST_TILE = 32  # columns of a workgroup
MANY = 2048  # columns that are enough threads
_SUMMED = ("f32", "f16")


def bindings(ids: tuple[str, ...]) -> tuple[Binding, ...]:
    """What is added to, what is added where, and the sums."""
    return (
        declare_input("base", _SUMMED, TABLE, "what is added to"),
        declare_input("x", _SUMMED, TAKEN, "items", same_as="base"),
        declare_input("ids", IDS, ids, ABOUT_IDS),
        declare_output("y", _SUMMED, TABLE, "sums", same_as="base"),
    )


def number(types: Mapping[str, str]) -> tuple[str, ...]:
    """The Slang type of the sums."""
    return (f"number_{types['y']}",)


def sum_by_number(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y, x = (quants.dequantise(problem.types["y"], inputs[name]) for name in ("base", "x"))
    ids = inputs["ids"]
    if ids.ndim == 1:
        ids = np.broadcast_to(ids[:, None], x.shape)
    there = exist(problem, ids)
    o, _, k = np.nonzero(there)
    np.add.at(y, (o, ids[there].astype("i8"), k), x[there])
    return {"y": y}


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
    ranges, tiles = -(-m * columns // ROOM), o * -(-k // columns)
    steps = n * columns // (4 * SUMMERS)  # four at least of a segment
    return ranges, tiles, max(1, min(512 // (ranges * tiles), steps, 4 * n // m))


def summing(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    return by_columns(problem) if has_many(problem) else by_ranges(problem)


def by_columns(problem: Problem) -> tuple[Launch, ...]:
    """f32 is summed in y; sums of others are singles that are put there at the end."""
    o, _, n, k = problem.shape.values()
    begin = Launch(
        groups=(groups := groups_of(problem)),
        push=indexed_arrays(problem, groups[0], "base", "m"),
        constants={"THREADS": THREADS},
        entry="begin",
    )
    launches = [_along_n(problem, SHARE // THREADS * o * k, "columns")]
    if problem.types["y"] != "f32":
        fetch, put = (_along_n(problem, o * n * k, entry) for entry in ("fetch", "put"))
        launches = [fetch, *launches, put]
    return tuple(_with(launch, 1, n) for launch in (begin, *launches))


def by_ranges(problem: Problem) -> tuple[Launch, ...]:
    """f32 of one segment is summed in one go."""
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
    alone = groups[2] == 1 and problem.types["y"] == "f32"
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
    in_y = segments == 1 and problem.types["y"] == "f32"
    return (4 if in_y else 4 * segments * prod(problem.array_shape("y")),)


_ADDING = portable(
    "accumulate",
    summing,
    "f32",
    entry="sums",
    arguments=number,
    refuses=refuse_large_scratch(singles),
    more=tuple(
        Stage(entry=entry, arguments=number)
        for entry in ("combine", "begin", "fetch", "columns", "put")
    ),
    own=Memory(scratch=singles),
)

SCATTER_ADD = kernel(
    "scatter_add",
    "Adds to items along any dimension by their numbers, in the order of n, the same bits every"
    " time: y = base, and then y[o, ids[o, n, k], k] += x[o, n, k].",
    bindings(TAKEN),
    _ADDING,
    sum_by_number,
    cases_of(
        "scatter_add", _SUMMED, (*SMALL, (1, 7, 9, 2100), (2, 3000, 700, 2), (1, 50, 5000, 1))
    ),
    timed_of(
        "scatter_add",
        _SUMMED,
        [(1, 32000, 512, 4096), (1, 4096, 1 << 20, 1), (4096, 4096, 2048, 1)],
    ),
    each_once,
)

INDEX_ADD = kernel(
    "index_add",
    "Adds to items along any dimension by numbers that are the same for all others, in the order of"
    " n, the same bits every time: y = base, and then y[o, ids[n], k] += x[o, n, k].",
    bindings(("n",)),
    _ADDING,
    sum_by_number,
    cases_of("index_add", _SUMMED, (*SMALL, (1, 7, 9, 2100), (2, 3000, 700, 2), (1, 50, 5000, 1))),
    timed_of("index_add", _SUMMED, [(1, 32000, 512, 4096), (1, 4096, 1 << 20, 1)]),
    each_once,
)

INDEX_SUMS = (SCATTER_ADD, INDEX_ADD)
