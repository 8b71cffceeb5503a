"""Items taken and set by their numbers along a dimension, the same bits every time."""

from __future__ import annotations

from math import prod

import numpy as np

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Array, Arrays, Launch, Memory, Problem, Stage, grid
from vkbench_shaders.kernels.moves.indexed import (
    SMALL,
    TABLE,
    TAKEN,
    bindings,
    cases_of,
    exist,
    indexed_arrays,
    item_bytes,
    kernel,
    launch_over,
    refuse_large_scratch,
    timed_of,
)
from vkbench_shaders.kernels.moves.mapping import ANY_TYPES, MORE_TYPES, THREADS, TYPES, groups_of
from vkbench_shaders.kernels.shared.portable import portable

HELD = 2048  # items of a workgroup that has whole columns
WIDE = 16  # bytes side by side that are worth moving together
ROW_ROOM = 16384  # bytes of x that a workgroup holds; see gather_rows.slang
ROW_SHARE = 2048  # items of y that it makes
TAKEN_OF = 8  # of so many items of x one is taken, at least
_GATHERS = (
    Stage(entry="gather", module="gather", arguments=item_bytes),
    Stage(entry="gather_rows", module="gather_rows", arguments=item_bytes),
)


def index_select(problem: Problem, device: DeviceFacts) -> Launch:
    """A launch by fours of words where items lie side by side; else as `gather` has it."""
    if problem.shape["k"] * problem.item_bytes("x") < WIDE:
        return gather(problem, device)
    groups = groups_of(problem)
    push = indexed_arrays(problem, groups[0])
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def gather(problem: Problem, device: DeviceFacts) -> Launch:
    if not fits_rows(problem):
        return launch_over(problem, prod(problem.array_shape("y")), "gather")
    o, _, n, k = problem.shape.values()
    groups = grid(o * -(-n * k // ROW_SHARE))
    return Launch(groups=groups, push=indexed_arrays(problem, groups[0]), entry="gather_rows")


def fits_rows(problem: Problem) -> bool:
    """Whether a workgroup can hold all that a row's numbers mean, and enough of it is taken."""
    _, m, n, k = problem.shape.values()
    x, unit = problem.layout("x"), problem.item_bytes("x")
    ragged = any(start * unit % 4 for start in (x.offset, x.strides[0]))
    together = x.strides[1] == k or m == 1
    return together and m * k * unit + 4 * ragged <= ROW_ROOM and TAKEN_OF * n >= m


def scatter(problem: Problem, device: DeviceFacts) -> Launch | tuple[Launch, ...]:
    if problem.shape["n"] <= HELD:
        return by_columns(problem)
    items = prod(problem.array_shape("x"))
    return tuple(launch_over(problem, items, entry) for entry in ("forget", "claim", "scatter"))


def by_columns(problem: Problem) -> Launch:
    """A launch whose workgroups take all items of a few columns."""
    o, _, n, k = problem.shape.values()
    tile = 1 << (min(HELD // max(n, 1), k).bit_length() - 1)
    groups = grid(o * -(-k // tile))
    push = indexed_arrays(problem, groups[0])
    return Launch(groups=groups, push=push, constants={"TILE": tile}, entry="scatter_columns")


def take_items(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """x along its second dimension by ids, which has one dimension or three."""
    x, ids = inputs["x"], inputs["ids"]
    if ids.ndim == 1:
        ids = np.broadcast_to(ids[:, None], (len(x), len(ids), x.shape[2]))
    there = exist(problem, ids)
    items = np.take_along_axis(x, np.where(there, ids, 0).astype("i8"), 1)
    return {"y": np.where(there, items, np.zeros(1, x.dtype))}


def scatter_items(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """y with the items of x set one after the other along n, so that the last one stays."""
    y, x, ids = inputs["y"].copy(), inputs["x"], inputs["ids"]
    o, k = np.ogrid[: len(x), : x.shape[2]]
    for n in range(x.shape[1]):
        there = exist(problem, ids[:, n])
        at = np.where(there, ids[:, n], 0)
        y[o, at, k] = np.where(there, x[:, n], y[o, at, k])
    return {"y": y}


def last_bytes(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Bytes that say for each item of y which of x is its last, if shared memory is too small."""
    return (4 if problem.shape["n"] <= HELD else 4 * prod(problem.array_shape("y")),)


INDEX_SELECT = kernel(
    "index_select",
    "Takes items along any dimension by numbers that are the same for all others:"
    " y[o, n, k] = x[o, ids[n], k], and 0 for numbers that x does not have.",
    bindings(TABLE, ("n",), TAKEN, ANY_TYPES),
    (portable("index_select", index_select, "exact", arguments=item_bytes, more=_GATHERS),),
    take_items,
    cases_of("index_select", TYPES, (*SMALL, (3, 3000, 2500, 1)), MORE_TYPES),
    timed_of(
        "index_select",
        ("f32", "f16"),
        [(1, 32000, 512, 4096), (4096, 4096, 2048, 1), (64, 1024, 512, 128)],
    ),
)

GATHER = kernel(
    "gather",
    "Takes items along any dimension by numbers of their own: y[o, n, k] = x[o, ids[o, n, k], k],"
    " and 0 for numbers that x does not have.",
    bindings(TABLE, TAKEN, TAKEN, ANY_TYPES),
    (portable("gather", gather, "exact", arguments=item_bytes, more=_GATHERS[1:]),),
    take_items,
    cases_of("gather", TYPES, (*SMALL, (3, 3000, 2500, 1), (1, 9000, 900, 1)), MORE_TYPES),
    timed_of("gather", ("f32", "f16"), [(4096, 4096, 2048, 1), (1, 32000, 512, 4096)]),
)

SCATTER = kernel(
    "scatter",
    "Sets items along any dimension by their numbers: y[o, ids[o, n, k], k] = x[o, n, k]; of"
    " several for one item the last along n stays, and others of y stay as they are.",
    bindings(TAKEN, TAKEN, TABLE, ANY_TYPES),
    (
        portable(
            "scatter",
            scatter,
            "exact",
            arguments=item_bytes,
            refuses=refuse_large_scratch(last_bytes),
            more=(
                Stage(entry="forget"),
                Stage(entry="claim"),
                Stage(entry="scatter_columns", module="scatter_columns", arguments=item_bytes),
            ),
            own=Memory(scratch=last_bytes),
        ),
    ),
    scatter_items,
    cases_of("scatter", TYPES, (*SMALL, (2, 70, 2048, 2), (2, 70, 2049, 2)), MORE_TYPES),
    timed_of("scatter", ("f32", "f16"), [(4096, 4096, 2048, 1), (1, 32000, 512, 4096)]),
)

INDEX = (INDEX_SELECT, GATHER, SCATTER)
