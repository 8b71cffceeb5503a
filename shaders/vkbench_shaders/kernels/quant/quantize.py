"""quantize: plain numbers to blocks, the same bytes as a CPU's.

Formats of weights have their scales searched for, in the steps of `quantisers.quantiser`; the
others are made in those of `quantisers.quants`, which search for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import ENCODED, PREPARED, format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Problem,
    Shapes,
    Variant,
    Work,
    grid,
)
from vkbench_shaders.kernels.shared import rows as in_rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, RAGGED, list_cases
from vkbench_shaders.quantisers import quants
from vkbench_shaders.quantisers.quantiser import quantise_weights

DIMS = ("b", "m", "k")
FORMATS = (*ENCODED, *PREPARED, "f16", "bf16")
SEARCHED = {  # numbers under one scale, which a thread has
    **dict.fromkeys(("q4_K", "q5_K", "iq4_xs"), 32),
    **dict.fromkeys(("q2_K", "q3_K", "q6_K", "nvfp4"), 16),
}
THREADS = 128
SHARE = 8 * THREADS  # numbers a workgroup
_SEARCHING = 64  # threads of a workgroup that searches

_KINDS = 13  # of so many blocks, the first ones after the first are special, each in another way


def layout(problem: Problem, binding: str) -> Layout:
    """Permuted: x's rows lie in the order m, b."""
    if problem.params["layout"] != "permuted" or binding != "x":
        return in_rows.layout(problem, binding)
    b, m, k = problem.full_shape(binding)
    return Layout(shape=(b, m, k), strides=(k, b * k, 1), storage=b * m * k)


def count_share(problem: Problem) -> int:
    """Numbers of a row that a workgroup makes."""
    fmt = problem.types["y"]
    return _SEARCHING * SEARCHED[fmt] if fmt in SEARCHED else SHARE


def _push(problem: Problem) -> dict[str, int]:
    """Push constants; arrays without gaps are one long row."""
    flat = problem.params["layout"] == "contiguous"
    b, m, k = (1, 1, prod(problem.shape.values())) if flat else problem.shape.values()
    x, y = problem.layout("x"), problem.layout("y")
    chunks = -(-k // count_share(problem))
    unit = problem.item_bytes("y")
    return {
        "k": k,
        "chunks": chunks,
        "groups": b * m * chunks,
        "groups_x": grid(b * m * chunks)[0],
        "inner": m,
        "x_outer": x.strides[0],
        "x_inner": x.strides[1],
        "x_offset": x.offset,
        "y_stride": y.strides[1] * unit,
        "y_offset": y.offset * unit,
        "aligned": flat or not any(place % 4 for place in (x.offset, *x.strides[:2])),
    }


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    push = _push(problem)
    return Launch(groups=grid(push["groups"]), push=push, constants={"THREADS": THREADS})


def launch_search(problem: Problem, device: DeviceFacts) -> Launch:
    """Each thread searches for one group's scale; a block's first, for the block's units too."""
    push = _push(problem)
    return Launch(groups=grid(push["groups"]), push=push)


def is_searched(types: Mapping[str, str]) -> bool:
    """Whether scales are searched for."""
    return types["y"] in SEARCHED


def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return f"{types['y']}_encoder", f"{types['x']}_input"


def numbers(problem: Problem, binding: str, block: int) -> Array:
    """Rows with outliers and blocks of zeros, of huge and tiny numbers, of ties, of one number."""
    made = data.activations(problem, binding).astype(np.float32)
    if is_searched(problem.types):
        huge, tiny = 40.0, 2.0**-14  # scales must fit f16
    elif "f16" in problem.types.values():
        huge, tiny = 500.0, 2.0**-18
    else:
        huge, tiny = 2.0**118, 2.0**-119
    whole = made.size // block * block
    kinds = made.reshape(-1)[:whole].reshape(-1, block)
    kinds[1::_KINDS] = 0
    kinds[2::_KINDS] *= np.float32(huge)
    kinds[3::_KINDS] *= np.float32(tiny)
    kinds[4::_KINDS] = np.round(kinds[4::_KINDS]) / 2
    kinds[5::_KINDS] = kinds[5::_KINDS, :1]
    kinds[6::_KINDS] = -0.0
    kinds[7::_KINDS, 1::2] = -kinds[7::_KINDS, : kinds.shape[1] // 2 * 2 : 2]
    kinds[8::_KINDS] = np.abs(kinds[8::_KINDS]) + 1
    return made.astype(problem.format(binding).dtype)


def inputs(problem: Problem) -> dict[str, Array]:
    return {"x": numbers(problem, "x", block_of(problem.types["y"]))}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"] if rows is None else inputs["x"][:, rows]
    quantise = quantise_weights if is_searched(problem.types) else quants.quantise
    return {"y": quantise(problem.types["y"], x.astype(np.float32))}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    if len(shapes["x"]) != 3:
        raise UsageError(f"x has three dimensions (b, m, k), got {len(shapes['x'])}")
    return dict(zip(DIMS, shapes["x"], strict=True))


def block_of(fmt: str) -> int:
    """Numbers of a block, or of a small row that a vector does not divide."""
    return format_named(fmt).elements if format_named(fmt).quantised else RAGGED


def _cases(fmt: str, types: Mapping[str, str]) -> Iterator[Case]:
    block = block_of(fmt)
    if fmt in PREPARED:
        if types:  # of f16: one case a format, in one of the layouts with gaps
            how = ("strided", "permuted")[PREPARED.index(fmt) % 2]
            yield from list_cases("quantize", fmt, types, DIMS, [(2, 7, 3 * block)], how)
        else:
            shapes = [(2, 5, 3 * block), (1, 3, 4096)]
            yield from list_cases("quantize", fmt, types, DIMS, shapes)
        return
    for how, shapes in {
        "contiguous": [(1, 1, block), (2, 5, 3 * block), (1, 1, 14336), (1, 17, 256)],
        "strided": [(3, 4, 512), (2, 7, 3 * block), (1, 3, 4096)],
        "permuted": [(2, 3, 1024), (3, 7, 3 * block)],
    }.items():
        yield from list_cases("quantize", fmt, types, DIMS, shapes, how)


QUANTIZE = Kernel(
    name="quantize",
    description="Encodes plain numbers in another format, the CPU's bytes: y = x.",
    group="quantise",
    dims=DIMS,
    bindings=(
        declare_output("y", FORMATS, DIMS, "rows of blocks, or of halves"),
        declare_input("x", ("f32", "f16"), DIMS, "matrices of finite numbers"),
    ),
    params={
        "layout": replace(
            LAYOUT,
            choices=(*LAYOUT.choices, "permuted"),
            description="how rows lie: without gaps, with them, or x's in the order m, b",
        )
    },
    forms=Forms(layout=layout, infer=infer),
    variants=(
        Variant(
            name="searched",
            module="quantize_searched",
            launch=launch_search,
            arithmetic="exact",
            arguments=lambda types: (f"{types['y']}_search", f"{types['x']}_input"),
            accepts=is_searched,
        ),
        replace(
            portable("quantize", launch, "exact", arguments=arguments),
            accepts=lambda types: not is_searched(types),
        ),
    ),
    inputs=inputs,
    check=Check(reference=reference, rows="m"),
    work=Work(flops=lambda problem: prod(problem.shape.values())),
    cases=CaseList(
        lambda: (
            case for fmt in FORMATS for types in ({}, {"x": "f16"}) for case in _cases(fmt, types)
        )
    ),
    timed=CaseList(
        lambda: (
            case
            for fmt in FORMATS
            for case in list_cases("quantize", fmt, {}, DIMS, [(1, 512, 14336), (1, 1, 14336)])
        )
    ),
)
