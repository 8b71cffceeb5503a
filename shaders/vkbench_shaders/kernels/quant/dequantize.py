"""dequantize: quantised weights to plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import QUANTISED, format_named
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
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, STRETCH, layout, list_cases, stretches
from vkbench_shaders.quantisers import quants


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    """Rows without gaps between them are one long row."""
    sizes = [problem.shape[dim] for dim in problem.kernel.dims]
    if problem.params["layout"] == "contiguous":
        sizes = [1, prod(sizes)]
    *batches, rows, columns = sizes
    groups = stretches(prod(batches) * rows, columns)
    push = {
        "columns": columns,
        "rows": rows,
        "batches": prod(batches),
        "groups_x": groups[0],
        **_place(problem, "weights"),
        **_place(problem, "y"),
    }
    return Launch(groups=groups, push=push)


def _place(problem: Problem, binding: str) -> dict[str, int]:
    """Offset, strides of a batch and a row: bytes of the weights, items of y."""
    lay = problem.layout(binding)
    unit = problem.item_bytes(binding) if binding == "weights" else 1
    batch, row, _ = (0, *lay.strides)[-3:]
    numbers = {"offset": lay.offset, "batch": batch, "row": row}
    return {f"{binding}_{name}": number * unit for name, number in numbers.items()}


DECODE = portable(
    "decode_rows", launch, "exact", arguments=lambda types: (types["weights"], types["y"])
)


def decode_rows(problem: Problem, binding: str, stored: Array) -> dict[str, Array]:
    """Rows decoded in float64 and rounded once to y's format, as a CPU does it."""
    exact = quants.dequantise(problem.types[binding], stored)
    with np.errstate(over="ignore"):  # what does not fit is infinite
        return {"y": exact.astype(problem.format("y").dtype).astype(np.float64)}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    weights = inputs["weights"] if rows is None else inputs["weights"][rows]
    return decode_rows(problem, "weights", weights)


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    m, k = matrix_shape("weights", shapes, types)
    return {"m": m, "k": k}


def _cases(fmt: str, types: Mapping[str, str]) -> Iterator[Case]:
    """Rows of few blocks and of many; as many as a workgroup decodes, one more and one less."""
    block = format_named(fmt).elements
    tile = STRETCH // block
    contiguous = (1, block), (tile - 1, block), (tile + 1, block), (7, 512), (1, 14336)
    strided = (61, 256), (13, 3 * block), (2, 1024), (3, 4096)
    yield from list_cases("dequantize", fmt, types, "mk", contiguous)
    yield from list_cases("dequantize", fmt, types, "mk", strided, "strided")


_TYPES = tuple((fmt, types) for fmt in QUANTISED for types in ({}, {"y": "f16"}))

DEQUANTIZE = Kernel(
    name="dequantize",
    description="Decodes quantised weights: y = weights as plain numbers.",
    group="quantise",
    dims=("m", "k"),
    bindings=(
        declare_input("weights", QUANTISED, ("m", "k"), "rows of blocks"),
        declare_output("y", ("f32", "f16"), ("m", "k"), "the same, decoded"),
    ),
    params={"layout": LAYOUT},
    forms=Forms(layout=layout, infer=infer),
    variants=(DECODE,),
    inputs=lambda problem: {"weights": data.weights(problem, "weights")},
    check=Check(reference=reference, rows="m"),
    work=Work(flops=lambda problem: problem.shape["m"] * problem.shape["k"]),
    cases=CaseList(lambda: (case for fmt, types in _TYPES for case in _cases(fmt, types))),
    timed=CaseList(
        lambda: (
            case
            for fmt, types in _TYPES
            for case in list_cases("dequantize", fmt, types, "mk", [(4096, 4096)])
        )
    ),
)
