"""copy_from: what kernels quantise to, copied to plain numbers, rows in another order if asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from vkbench.case import Case
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import ENCODED, format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Layout,
    Problem,
    Shapes,
    Work,
    matrix_shape,
)
from vkbench_shaders.kernels.quant.dequantize import DECODE, decode_rows
from vkbench_shaders.kernels.shared import rows as in_rows
from vkbench_shaders.kernels.shared.rows import LAYOUT, RAGGED, list_cases

DIMS = ("b", "m", "k")
FORMATS = (*ENCODED, "f16", "bf16")


def layout(problem: Problem, binding: str) -> Layout:
    """Permuted: y's rows lie in the order m, b."""
    if problem.params["layout"] != "permuted" or binding != "y":
        return in_rows.layout(problem, binding)
    b, m, k = problem.full_shape(binding)
    return Layout(shape=(b, m, k), strides=(k, b * k, 1), storage=b * m * k)


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    weights = inputs["weights"] if rows is None else inputs["weights"][:, rows]
    return decode_rows(problem, "weights", weights)


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Matrices of weights, all of one shape."""
    shape = shapes["weights"]
    if len(shape) != 3:
        raise UsageError(f"weights has three dimensions (b, m, k), got {len(shape)}")
    m, k = matrix_shape("weights", {"weights": shape[1:]}, types)
    return {"b": shape[0], "m": m, "k": k}


def _cases(fmt: str) -> Iterator[Case]:
    block = RAGGED if fmt in ("f16", "bf16") else format_named(fmt).elements
    for how, shapes in {
        "contiguous": [(1, 1, block), (2, 5, 3 * block), (1, 1, 14336)],
        "strided": [(3, 4, 512), (2, 7, 256), (1, 3, 5 * block)],
        "permuted": [(2, 3, 1024), (3, 7, 3 * block), (2, 1, 4096)],
    }.items():
        yield from list_cases("copy_from", fmt, {}, DIMS, shapes, how)


COPY_FROM = Kernel(
    name="copy_from",
    description="Copies quantised or half-precision matrices to singles: y = weights.",
    group="quantise",
    dims=DIMS,
    bindings=(
        declare_input("weights", FORMATS, DIMS, "matrices of rows of blocks, or of halves"),
        declare_output("y", ("f32",), DIMS, "the same, decoded"),
    ),
    params={
        "layout": replace(
            LAYOUT,
            choices=(*LAYOUT.choices, "permuted"),
            description="how rows lie: without gaps, with them, or y's in the order m, b",
        )
    },
    forms=Forms(layout=layout, infer=infer),
    variants=(DECODE,),
    inputs=lambda problem: {"weights": data.weights(problem, "weights")},
    check=Check(reference=reference, rows="m"),
    work=Work(flops=lambda problem: prod(problem.shape.values())),
    cases=CaseList(lambda: (case for fmt in FORMATS for case in _cases(fmt))),
    timed=CaseList(
        lambda: (
            case
            for fmt in FORMATS
            for case in list_cases("copy_from", fmt, {}, DIMS, [(2, 512, 8192)])
        )
    ),
)
