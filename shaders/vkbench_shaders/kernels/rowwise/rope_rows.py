"""rope_set_rows: heads turned by their token's position become rows of a table, a cache of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Problem,
    Push,
    Shapes,
    Work,
)
from vkbench_shaders.kernels.rowwise import rope
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

DIMS = ("m", "b", "n", "h", "k")
TYPES = ("f16", "bf16", "f32")  # of the table


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    turned = rope.launch(problem, 1.0)
    return replace(turned, push={**turned.push, **table(problem)}, entry="")


def table(problem: Problem) -> Push:
    """Where rows of the table lie, and the words of their ids."""
    y = problem.layout("y")
    return {
        "y": (y.offset, y.strides[0]),
        "table_rows": problem.shape["m"],
        "id_words": problem.item_bytes("ids") // 4,
    }


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if not rope.is_aligned(problem):
        return "is for heads of which 16 bytes hold whole pairs"
    return rope.refuses(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Each sequence of the batch has a stretch of the table, as in a cache."""
    b, rows = problem.shape["b"], problem.shape["m"] // problem.shape["b"]
    ids = data.distinct(problem, "ids", rows)
    return {
        **rope.inputs(problem),
        "ids": ids + np.arange(b, dtype=ids.dtype)[:, None] * rows,
        "y": data.uniform(problem, "y", -2, 2),
    }


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y = quants.dequantise(problem.types["y"], inputs["y"])
    y[inputs["ids"]] = rope.reference(problem, inputs, None, 1.0)["y"]
    return {"y": y}


def layout(problem: Problem, binding: str) -> Layout:
    if binding in ("positions", "factors"):
        return rope.layout(problem, binding)
    return Layout.contiguous(problem.full_shape(binding))


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """x has four dimensions, y has rows of all heads of a token."""
    if len(shapes["x"]) != 4 or len(shapes["y"]) != 3:
        raise UsageError("x has four dimensions (b, n, h, k), y has three (m, h, k)")
    return {"m": shapes["y"][0], **dict(zip(DIMS[1:], shapes["x"], strict=True))}


def bytes_moved(problem: Problem) -> int:
    """Bytes moved: of y, only the rows that are set."""
    b, n, h, k = (problem.shape[dim] for dim in DIMS[1:])
    heads = h * k * (4 + problem.item_bytes("y"))
    return b * n * (heads + problem.item_bytes("ids")) + 4 * n


_CASES = (
    "m5_b1_n1_h1_k8",
    "m40_b2_n3_h8_k128",
    "m9_b1_n9_h3_k64/mode=neox",
    "m64_b1_n33_h4_k80/factors=given,mode=neox,n_dims=32",
    "m17_b1_n5_h2_k96/factors=given",
    "m16_b1_n7_h2_k128/mode=mrope",
    "m24_b2_n11_h1_k128/mode=imrope,sections=24.20.20.0",
    "m17_b1_n17_h4_k80/mode=vision,sections=20.20.20.20",
)
_TIMED = ("m4096_b1_n1_h8_k128", "m4096_b1_n512_h8_k128")


def list_cases(shapes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Types and shapes: all shapes of each format of the table, two with ids of 64 bits."""
    for types, some in (
        ("f32", shapes),
        ("f32:y=f32", shapes),
        ("f32:y=bf16", shapes[2:4]),
        ("f32:ids=i64:y=bf16", shapes[2:3]),
        ("f32:ids=i64", shapes[1:3]),
        ("f32:ids=i64:y=f32", shapes[2:4]),
    ):
        yield from ((types, shape) for shape in some)


ROPE_SET_ROWS = Kernel(
    name="rope_set_rows",
    description="Turns heads as rope does and sets rows of a table: y[ids[n]] = rope(x[n]).",
    group="rope",
    dims=DIMS,
    bindings=(
        declare_input("x", ("f32",), DIMS[1:], "heads of tokens"),
        *rope.ROPE[0].bindings[1:3],  # positions and factors
        declare_input(
            "ids",
            ("i32", "i64"),
            ("b", "n"),
            "numbers of rows, 0 to m - 1, no two alike; for others nothing is stored",
        ),
        Binding(
            name="y",
            access="inout",
            types=TYPES,
            dims=("m", "h", "k"),
            description="the table; rows that are not set stay as they are",
        ),
    ),
    params={name: param for name, param in rope.PARAMS.items() if name != "layout"},
    forms=Forms(layout=layout, infer=infer),
    variants=(
        portable(
            "rope",
            launch,
            "f32",
            entry="rope_rows",
            arguments=lambda types: (types["y"],),
            refuses=refuses,
        ),
    ),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=lambda problem: 3 * prod(problem.full_shape("x")), bytes_moved=bytes_moved),
    cases=CaseList(
        lambda: (parse(f"rope_set_rows/{types}/{shape}") for types, shape in list_cases(_CASES))
    ),
    timed=CaseList(lambda: (parse(f"rope_set_rows/f32/{shape}") for shape in _TIMED)),
)
