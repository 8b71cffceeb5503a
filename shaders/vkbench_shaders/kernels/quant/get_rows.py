"""get_rows: rows of a table by number, decoded, as for the embeddings of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import formats
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Shapes,
    Work,
    matrix_shape,
)
from vkbench_shaders.kernels.quant.dequantize import decode_rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, RAGGED, layout, list_cases, stretches

TABLES = (*formats.WEIGHTS, *formats.PLAIN, "i32")
_BIG = 2_560_672  # numbers of a big table: 80,021 rows of 32


def accepts(types: Mapping[str, str]) -> bool:
    """Integers stay integers; numbers of 64 bits are for rows as they are."""
    whole = types["ids"] == "i32" or types["table"] == types["y"]
    return whole and (types["table"] == "i32") == (types["y"] == "i32")


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n, k = problem.shape.values()
    groups = stretches(n, k)
    table, ids, y = (problem.layout(name) for name in ("table", "ids", "y"))
    unit = problem.item_bytes("table")
    id_words = problem.item_bytes("ids") // 4
    push = {
        "columns": k,
        "rows": n,
        "table_rows": m,
        "groups_x": groups[0],
        "table_offset": table.offset * unit,
        "table_stride": table.strides[0] * unit,
        "ids_offset": ids.offset * id_words,
        "id_words": id_words,
        "y_offset": y.offset,
        "y_stride": y.strides[0],
    }
    return Launch(groups=groups, push=push)


def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    """Integers are moved as the singles that have their bits."""
    return tuple("f32" if types[name] == "i32" else types[name] for name in ("table", "y"))


def inputs(problem: Problem) -> dict[str, Array]:
    make = data.plain_values if problem.types["table"] == "i32" else data.weights
    ids = data.indices(problem, "ids", problem.shape["m"])
    return {"table": make(problem, "table"), "ids": ids}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    ids = inputs["ids"] if rows is None else inputs["ids"][rows]
    return decode_rows(problem, "table", inputs["table"][ids])


def bytes_moved(problem: Problem) -> int:
    """Bytes moved: of the table, only the rows that are taken."""
    n, k = problem.shape["n"], problem.shape["k"]
    rows = problem.format("table").items(k) * problem.item_bytes("table")
    return n * (rows + problem.item_bytes("ids") + k * problem.item_bytes("y"))


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    m, k = matrix_shape("table", shapes, types)
    if len(shapes["ids"]) != 1:
        raise UsageError(f"ids has one dimension, got {len(shapes['ids'])}")
    return {"m": m, "n": shapes["ids"][0], "k": k}


def _cases(fmt: str, types: Mapping[str, str]) -> Iterator[Case]:
    """Few rows and many, taken once and again; plain ones begin anywhere."""
    row = format_named(fmt)
    block = row.elements if row.quantised else RAGGED
    contiguous = (_BIG // block, 17, block), (101, 13, 3 * block), (7, 31, 512), (3, 2, 14336)
    strided = (31, 7, 256), (11, 5, 1024), (5, 1, 4096)
    yield from list_cases("get_rows", fmt, types, "mnk", contiguous)
    yield from list_cases("get_rows", fmt, types, "mnk", strided, "strided")


_TYPES: tuple[tuple[str, Mapping[str, str]], ...] = (
    *((fmt, types) for fmt in TABLES[:-1] for types in ({}, {"y": "f16"})),
    ("i32", {"y": "i32"}),
    ("f32", {"ids": "i64"}),
    ("f16", {"ids": "i64", "y": "f16"}),
    ("i32", {"ids": "i64", "y": "i32"}),
)

GET_ROWS = Kernel(
    name="get_rows",
    description="Takes rows of a table by their numbers and decodes them: y[n] = table[ids[n]].",
    group="index",
    dims=("m", "n", "k"),
    bindings=(
        declare_input("table", TABLES, ("m", "k"), "rows of blocks or of plain numbers"),
        declare_input(
            "ids",
            ("i32", "i64"),
            ("n",),
            "numbers of rows, 0 to m - 1; for others nothing is stored",
        ),
        declare_output(
            "y", ("f32", "f16", "i32"), ("n", "k"), "the rows, decoded; i32 from i32 alone"
        ),
    ),
    params={"layout": LAYOUT},
    forms=Forms(accepts=accepts, layout=layout, infer=infer),
    variants=(portable("get_rows", launch, "exact", arguments=arguments),),
    inputs=inputs,
    check=Check(reference=reference, rows="n"),
    work=Work(
        flops=lambda problem: problem.shape["n"] * problem.shape["k"],
        bytes_moved=bytes_moved,
    ),
    cases=CaseList(lambda: (case for fmt, types in _TYPES for case in _cases(fmt, types))),
    timed=CaseList(
        lambda: (
            case
            for fmt, types in _TYPES
            if "ids" not in types
            for case in list_cases("get_rows", fmt, types, "mnk", [(32000, 512, 4096)])
        )
    ),
)
