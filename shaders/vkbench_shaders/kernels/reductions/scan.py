"""cumsum: running sums along rows.

A NaN is in all sums from its column on; an infinity, too, until it meets the other one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    Problem,
    Stage,
    Variant,
    Work,
    grid,
)
from vkbench_shaders.kernels.reductions.reduce_plan import partial, rows_in_parts
from vkbench_shaders.kernels.shared.rows import LAYOUT, layout, list_cases
from vkbench_shaders.launch import power_of_two
from vkbench_shaders.quantisers import quants
from vkbench_shaders.tuning.rates import busy

_MOST_THREADS = 256
_FOURS = 4  # of a thread: those of cumsum.slang
_SHORT = 512  # columns up to which rows share a workgroup
_ENOUGH_GROUPS = 2  # of a compute unit
_FULL = 8  # workgroups that it runs at once: more of them have more sums to join
_MOST_PARTS = 1024


@dataclass(frozen=True, kw_only=True)
class _ScanPlan:
    threads: int
    part: int  # columns a workgroup, whole tiles of them
    parts: int


def _plan(problem: Problem, device: DeviceFacts) -> _ScanPlan:
    """Rows are cut where they are long, and too few to keep a device busy."""
    rows, columns = problem.shape.values()
    threads = min(_MOST_THREADS, max(32, power_of_two(-(-columns // 4))))
    tile = threads * _FOURS * 4
    tiles = max(1, -(-columns // tile))
    tiles_each = max(-(-tiles // _MOST_PARTS), -(-rows * tiles // busy(device, _FULL)))
    tiles_each = tiles if rows >= busy(device, _ENOUGH_GROUPS) else min(tiles_each, tiles)
    return _ScanPlan(threads=threads, part=tiles_each * tile, parts=-(-tiles // tiles_each))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    made, (rows, columns) = _plan(problem, device), problem.shape.values()
    places = _places(problem)
    if 0 < columns <= _SHORT:
        return (_short(problem, places),)
    groups = grid(rows * made.parts if columns else 0)
    last = Launch(
        groups=groups,
        push={
            "rows": rows,
            "columns": columns,
            "part": made.part,
            "parts": made.parts,
            "groups_x": groups[0],
            **places,
        },
        constants={"THREADS": made.threads, "ALIGNED": _is_aligned(places)},
    )
    if made.parts == 1:
        return (last,)
    return partial(problem, rows_in_parts(problem, made.part, made.parts), entry="reduce"), last


def _places(problem: Problem) -> dict[str, int]:
    """Push constants: where rows lie."""
    x, y = problem.layout("x"), problem.layout("y")
    return {
        "x_offset": x.offset,
        "x_stride": x.strides[0],
        "y_offset": y.offset,
        "y_stride": y.strides[0],
    }


def _is_aligned(places: dict[str, int]) -> bool:
    """Whether all rows begin at whole fours."""
    return all(place % 4 == 0 for place in places.values())


def _short(problem: Problem, places: dict[str, int]) -> Launch:
    rows, columns = problem.shape.values()
    lanes = power_of_two(-(-columns // 4))
    groups = grid(-(-rows * lanes // _MOST_THREADS))
    return Launch(
        groups=groups,
        push={
            "rows": rows,
            "columns": columns,
            "part": columns,
            "parts": lanes,
            "groups_x": groups[0],
            **places,
        },
        constants={"THREADS": _MOST_THREADS, "ALIGNED": _is_aligned(places)},
        entry="short_rows",
    )


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    return (8 * problem.shape["h"] * max(1, _plan(problem, device).parts),)


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = quants.dequantise(problem.types["x"], inputs["x"] if rows is None else inputs["x"][rows])
    with np.errstate(invalid="ignore"):
        return {"y": x.cumsum(axis=1, dtype=np.float64)}


def _variant(name: str, prefix: str, requires: tuple[str, ...] = ()) -> Variant:
    return Variant(
        name=name,
        module="cumsum",
        arguments=lambda types: (types["x"], prefix),
        more=(
            Stage(entry="short_rows", arguments=lambda types: (types["x"],)),
            Stage(
                entry="reduce",
                module="reduce",
                arguments=lambda types: ("total", f"floats<{types['x']}>", "float_results<f32>"),
            ),
        ),
        launch=launch,
        own=Memory(scratch=scratch),
        arithmetic="f32",
        requires=requires,
    )


_SHAPES = ((1, 1), (3, 10), (60, 127), (5, 512), (7, 513), (2, 4096), (3, 20481))
_F32_SHAPES = ((60, 128), (5, 1023), (5, 2049), (1, 242004), (0, 5), (3, 0), (300, 5000))
_STRIDED = ((5, 61), (2, 9001))
_TIMED = (
    *((2048, 128), (320, 2048), (40, 20000), (4096, 4096)),
    *((16, 200000), (1, 2000000), (16, 2000000)),
)


def _cases() -> Iterator[Case]:
    for fmt, shapes in (("f32", (*_SHAPES, *_F32_SHAPES)), ("f16", _SHAPES)):
        yield from list_cases("cumsum", fmt, {}, "hw", shapes)
        yield from list_cases("cumsum", fmt, {}, "hw", _STRIDED, "strided")
        shape, params = {"h": 20, "w": 7}, {"values": "special"}
        yield Case(kernel="cumsum", format=fmt, shape=shape, params=params)
    yield from list_cases("cumsum", "bf16", {}, "hw", ((60, 127), (7, 513), (2, 4096)))


CUMSUM = Kernel(
    name="cumsum",
    group="scan",
    description="Running sums along rows: y[h][w] = x[h][0] + ... + x[h][w].",
    dims=("h", "w"),
    forms=Forms(empty=("h", "w"), layout=layout),
    bindings=(
        declare_input("x", ("f32", "f16", "bf16"), ("h", "w"), "summands"),
        declare_output("y", ("f32",), ("h", "w"), "sums"),
    ),
    params={"layout": LAYOUT, "values": data.VALUES},
    variants=(
        _variant("subgroup", "by_subgroup", ("subgroup_arithmetic",)),
        _variant("portable", "stepped"),
    ),
    inputs=lambda problem: {"x": data.values(problem, "x")},
    check=Check(reference=reference, rows="h"),
    work=Work(flops=lambda problem: prod(problem.shape.values())),
    cases=CaseList(_cases),
    timed=CaseList(lambda: list_cases("cumsum", "f32", {}, "hw", _TIMED)),
)

SCAN = (CUMSUM,)
