"""argsort and top_k: rows by size, equal numbers as they come.

NaN counts as greater than all numbers: it is last, or first where order is descending. -0 equals 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from vkbench.case import Case
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
    Memory,
    Param,
    Problem,
    Stage,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, layout, list_cases
from vkbench_shaders.launch import power_of_two
from vkbench_shaders.quantisers import quants

_EACH = 8  # entries a thread, as in sorting.slang
_MOST_THREADS = 256
_TILE = _MOST_THREADS * _EACH
_ENTRY_BYTES = 8
_SHORT = 128  # columns up to which a place is found by comparing with all others
_MOST_K = _TILE // 2  # for more, entries would not become fewer fast


def _threads(entries: int) -> int:
    """Threads that sort so many entries of a row, or a tile of them."""
    return min(_MOST_THREADS, max(32, power_of_two(-(-entries // _EACH))))


def _tiles(entries: int) -> int:
    return -(-entries // (_threads(entries) * _EACH))


def _places(problem: Problem, *names: str) -> dict[str, int]:
    """Push constants: where rows lie."""
    push: dict[str, int] = {}
    for name in names:
        lay = problem.layout(name)
        push |= {f"{name}_offset": lay.offset, f"{name}_stride": lay.strides[0]}
    return push


def argsort_launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Tiles first; then runs that are twice as long each time."""
    rows, columns = problem.shape.values()
    if 0 < columns <= _SHORT:
        return (ranks_launch(problem),)
    threads, tiles = _threads(columns), _tiles(columns)
    groups = grid(rows * tiles)
    runs = [_TILE << turn for turn in range((tiles - 1).bit_length() if tiles > 1 else 0)]

    def turn(number: int, run: int, entry: str) -> Launch:
        push = {
            "columns": columns,
            "tiles": tiles,
            "groups": rows * tiles,
            "groups_x": groups[0],
            **_places(problem, "x", "y"),
            "descending": problem.params["order"] == "descending",
            "run": run,
            "from": (number + 1) % 2 * rows * columns,
            "to": number % 2 * rows * columns,
            "last": number == len(runs),
        }
        return Launch(groups=groups, push=push, constants={"THREADS": threads}, entry=entry)

    merges = (turn(number, run, "merge_runs") for number, run in enumerate(runs, 1))
    return turn(0, 0, "sort_tiles"), *merges


def ranks_launch(problem: Problem) -> Launch:
    """A launch whose workgroups sort as many short rows as they have threads for."""
    rows, columns = problem.shape.values()
    at_once = _MOST_THREADS // columns
    groups = grid(-(-rows // at_once))
    push = {
        "columns": columns,
        "tiles": at_once,
        "groups": rows,
        "groups_x": groups[0],
        **_places(problem, "x", "y"),
        "descending": problem.params["order"] == "descending",
        "run": 0,
        "from": 0,
        "to": 0,
        "last": 1,
    }
    constants = {"THREADS": _MOST_THREADS}
    return Launch(groups=groups, push=push, constants=constants, entry="rank_rows")


def argsort_scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    rows, columns = problem.shape.values()
    return (2 * rows * columns * _ENTRY_BYTES if _tiles(columns) > 1 else _ENTRY_BYTES,)


def _rounds(columns: int, k: int) -> list[int]:
    """Entries of a row before each round of top_k."""
    counts = [columns]
    while (tiles := _tiles(counts[-1])) > 1:
        rest = counts[-1] - (tiles - 1) * _TILE
        counts.append((tiles - 1) * k + min(k, rest))
    return counts


def top_k_launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    rows, columns, k = problem.shape.values()
    counts = _rounds(columns, k)
    half = rows * max(counts[1:], default=0)

    def turn(number: int, count: int) -> Launch:
        tiles = _tiles(count)
        groups = grid(rows * tiles)
        push = {
            "count": count,
            "tiles": tiles,
            "groups": rows * tiles,
            "groups_x": groups[0],
            **_places(problem, "x", "values", "ids"),
            "k": k,
            "from": (number + 1) % 2 * half,
            "to": number % 2 * half,
            "from_row": count,
            "to_row": counts[number + 1] if tiles > 1 else 0,
            "first": number == 0,
        }
        return Launch(groups=groups, push=push, constants={"THREADS": _threads(count)})

    return tuple(turn(number, count) for number, count in enumerate(counts))


def top_k_scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    rows, columns, k = problem.shape.values()
    return (max(1, 2 * rows * max(_rounds(columns, k)[1:], default=0)) * _ENTRY_BYTES,)


def top_k_refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """k of a row that has as many."""
    columns, k = problem.shape["w"], problem.shape["k"]
    if k > min(columns, _MOST_K):
        return f"k is {k}: at most {_MOST_K}, and no more than the {columns} columns"
    return too_large(problem, device)


def order_of(x: Array, descending: bool) -> Array:
    """Indices along the last axis: by NaN or not first, then by size."""
    if not descending:
        return x.argsort(axis=-1, kind="stable")
    return np.asarray(np.lexsort((-x, ~np.isnan(x)), axis=-1))


def _take_sample(problem: Problem, inputs: Arrays, rows: Array | None) -> tuple[Array, Array]:
    """The rows of a sample as they are stored, and their numbers."""
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return x, quants.dequantise(problem.types["x"], x)


def argsort_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    _, x = _take_sample(problem, inputs, rows)
    return {"y": order_of(x, problem.params["order"] == "descending").astype(np.int32)}


def top_k_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, numbers = _take_sample(problem, inputs, rows)
    ids = order_of(numbers, descending=True)[:, : problem.shape["k"]]
    return {"values": np.take_along_axis(x, ids, axis=1), "ids": ids.astype(np.int32)}


_ROWS = ((1, 1), (70, 10), (3, 255), (5, 2047), (2, 2049), (3, 5000))
_LONG = ((5, 128), (3, 129), (40, 33), (1, 70001), (0, 5), (3, 0))
_TIMED = ((16, 65000), (1, 200000), (16, 200000), (6000, 10), (1024, 1024), (1, 1 << 20))
_TOP = ((1, 1, 1), (7, 10, 10), (3, 300, 40), (2, 2048, 1), (2, 2049, 400), (3, 9001, 10))
_TOP_LONG = ((1, 70001, 400), (5, 1025, 1024), (0, 5, 2))
_TOP_TIMED = (
    *((16, 65000, 1), (16, 65000, 40), (1, 200000, 40)),
    *((16, 200000, 10), (16, 200000, 40), (16, 200000, 400)),
)


def _argsort_cases() -> Iterator[Case]:
    for fmt, shapes in (("f32", (*_ROWS, *_LONG)), ("f16", _ROWS)):
        yield from list_cases("argsort", fmt, {}, "hw", shapes)
        yield from list_cases("argsort", fmt, {}, "hw", ((3, 61), (2, 3001)), "strided")
        for h, w in ((9, 50), (3, 255), (2, 4097)):
            for params in ({"order": "descending"}, {"order": "descending", "values": "special"}):
                yield Case(kernel="argsort", format=fmt, shape={"h": h, "w": w}, params=params)
        yield Case(
            kernel="argsort", format=fmt, shape={"h": 3, "w": 2050}, params={"values": "special"}
        )
    yield from list_cases("argsort", "bf16", {}, "hw", ((70, 10), (2, 2049)))
    params = {"order": "descending", "values": "special"}
    yield Case(kernel="argsort", format="bf16", shape={"h": 3, "w": 255}, params=params)


def _top_k_cases() -> Iterator[Case]:
    for fmt, shapes in (("f32", (*_TOP, *_TOP_LONG)), ("f16", _TOP)):
        yield from list_cases("top_k", fmt, {}, "hwk", shapes)
        yield from list_cases("top_k", fmt, {}, "hwk", ((3, 61, 7), (2, 3001, 50)), "strided")
        for h, w, k in ((9, 50, 40), (2, 3000, 333)):
            shape, params = {"h": h, "w": w, "k": k}, {"values": "special"}
            yield Case(kernel="top_k", format=fmt, shape=shape, params=params)
    yield from list_cases("top_k", "bf16", {}, "hwk", ((7, 10, 10), (2, 2049, 40)))
    shape = {"h": 9, "w": 50, "k": 40}
    yield Case(kernel="top_k", format="bf16", shape=shape, params={"values": "special"})


_FORMATS = ("f32", "f16", "bf16")
_X = declare_input("x", _FORMATS, ("h", "w"), "rows of numbers")

ARGSORT = Kernel(
    name="argsort",
    group="sort",
    description="The order of each row's numbers: indices, those of equal numbers ascending.",
    dims=("h", "w"),
    forms=Forms(empty=("h", "w"), layout=layout),
    bindings=(
        _X,
        declare_output("y", ("i32",), ("h", "w"), "indices"),
    ),
    params={
        "order": Param(
            default="ascending",
            choices=("ascending", "descending"),
            description="NaN is last in the one, first in the other",
        ),
        "layout": LAYOUT,
        "values": data.VALUES,
    },
    variants=(
        portable(
            "argsort",
            argsort_launch,
            "exact",
            entry="sort_tiles",
            arguments=lambda types: (types["x"],),
            more=(
                Stage(entry="merge_runs"),
                Stage(entry="rank_rows", arguments=lambda types: (types["x"],)),
            ),
            own=Memory(scratch=argsort_scratch),
        ),
    ),
    inputs=lambda problem: {"x": data.values(problem, "x")},
    check=Check(reference=argsort_reference, rows="h"),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(_argsort_cases),
    timed=CaseList(lambda: list_cases("argsort", "f32", {}, "hw", _TIMED)),
)

TOP_K = Kernel(
    name="top_k",
    group="sort",
    description="The k greatest numbers of each row, the greatest first, and where they are.",
    dims=("h", "w", "k"),
    forms=Forms(empty=("h",), layout=layout),
    bindings=(
        _X,
        declare_output(
            "values", _FORMATS, ("h", "k"), "numbers, descending, NaN first", same_as="x"
        ),
        declare_output(
            "ids", ("i32",), ("h", "k"), "their columns, those of equal numbers ascending"
        ),
    ),
    params={"layout": LAYOUT, "values": data.VALUES},
    variants=(
        portable(
            "top_k",
            top_k_launch,
            "exact",
            arguments=lambda types: (types["x"], types["x"]),
            refuses=top_k_refuses,
            own=Memory(scratch=top_k_scratch),
        ),
    ),
    inputs=lambda problem: {"x": data.values(problem, "x")},
    check=Check(reference=top_k_reference, rows="h"),
    work=Work(flops=lambda problem: prod(problem.array_shape("x"))),
    cases=CaseList(_top_k_cases),
    timed=CaseList(lambda: list_cases("top_k", "f32", {}, "hwk", _TOP_TIMED)),
)

SORT = (ARGSORT, TOP_K)
