"""set_rows: rows of a table replaced by plain numbers in its format, as in an attention cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import ENCODED, PLAIN
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Shapes,
    Work,
    grid,
    matrix_shape,
)
from vkbench_shaders.kernels.quant.quantize import SHARE, THREADS, arguments, block_of, numbers
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, layout, list_cases
from vkbench_shaders.quantisers import quants

TABLES = (*ENCODED, *PLAIN)


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n, k = problem.shape.values()
    chunks = -(-k // SHARE)
    groups = grid(n * chunks)
    y, x, ids = (problem.layout(name) for name in ("y", "x", "ids"))
    unit, id_words = problem.item_bytes("y"), problem.item_bytes("ids") // 4
    push = {
        "k": k,
        "chunks": chunks,
        "groups": n * chunks,
        "groups_x": groups[0],
        "x_stride": x.strides[0],
        "x_offset": x.offset,
        "y_stride": y.strides[0] * unit,
        "y_offset": y.offset * unit,
        "y_rows": m,
        "id_words": id_words,
        "ids_offset": ids.offset * id_words,
        "aligned": x.offset % 4 == 0 and (x.strides[0] % 4 == 0 or n == 1),
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def inputs(problem: Problem) -> dict[str, Array]:
    return {
        "y": data.weights(problem, "y"),
        "x": numbers(problem, "x", block_of(problem.types["y"])),
        "ids": data.distinct(problem, "ids", problem.shape["m"]),
    }


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y = inputs["y"].copy()
    y[inputs["ids"]] = quants.quantise(problem.types["y"], inputs["x"].astype(np.float32))
    return {"y": y}


def bytes_moved(problem: Problem) -> int:
    """Bytes moved: of y, only the rows that are set."""
    n, k = problem.shape["n"], problem.shape["k"]
    row = problem.format("y").items(k) * problem.item_bytes("y")
    return n * (row + problem.item_bytes("ids") + k * problem.item_bytes("x"))


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    m, k = matrix_shape("y", shapes, types)
    if len(shapes["ids"]) != 1:
        raise UsageError(f"ids has one dimension, got {len(shapes['ids'])}")
    n = shapes["ids"][0]
    if shapes["x"] != (n, k):
        raise UsageError(f"x has to be {n} rows of {k} numbers, as ids and y say")
    return {"m": m, "n": n, "k": k}


def _cases(fmt: str, types: Mapping[str, str]) -> Iterator[Case]:
    block = block_of(fmt)
    contiguous = (101, 13, 3 * block), (1, 1, block), (5, 3, 14336), (31, 31, 256)
    strided = (31, 7, 512), (11, 5, 3 * block), (3, 2, 4096)
    few = 1 if "ids" in types else None
    yield from list_cases("set_rows", fmt, types, "mnk", contiguous[:few])
    yield from list_cases("set_rows", fmt, types, "mnk", strided[:few], "strided")


_TYPES = [
    {name: fmt for name, fmt in (("x", x), ("ids", ids)) if fmt}
    for x, ids in product(("", "f16"), ("", "i64"))
]

SET_ROWS = Kernel(
    name="set_rows",
    description="Sets rows of a table to numbers in the table's format: y[ids[n]] = x[n].",
    group="index",
    dims=("m", "n", "k"),
    bindings=(
        Binding(
            name="y",
            access="inout",
            types=TABLES,
            dims=("m", "k"),
            description="rows of blocks or of plain numbers; those not set stay as they are",
        ),
        declare_input("x", ("f32", "f16"), ("n", "k"), "rows of finite numbers"),
        declare_input(
            "ids",
            ("i32", "i64"),
            ("n",),
            "numbers of rows, 0 to m - 1, no two alike; for others nothing is stored",
        ),
    ),
    params={"layout": LAYOUT},
    forms=Forms(layout=layout, infer=infer),
    variants=(portable("set_rows", launch, "exact", arguments=arguments),),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(
        flops=lambda problem: problem.shape["n"] * problem.shape["k"],
        bytes_moved=bytes_moved,
    ),
    cases=CaseList(
        lambda: (case for fmt in TABLES for types in _TYPES for case in _cases(fmt, types))
    ),
    timed=CaseList(
        lambda: (
            case
            for fmt in TABLES
            for case in list_cases("set_rows", fmt, {}, "mnk", [(4096, 512, 1024)])
        )
    ),
)
