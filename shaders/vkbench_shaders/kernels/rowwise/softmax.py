"""Softmax over rows, with the mask, ALiBi slopes and sinks that attention has.

A row of which the mask hides everything is zeros. A NaN, or an exponent of +Inf, makes a row NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log2, prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data, noise
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Memory,
    Param,
    Problem,
    Push,
    Shapes,
    Stage,
    Work,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.gradients import SOFTMAX_BACK
from vkbench_shaders.kernels.rowwise.row_values import Cut, place
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants
from vkbench_shaders.tuning.rates import busy

DIMS = ("b", "c", "h", "w")
TYPES = ("f32", "f16", "bf16")
MASKS = ("none", "all", "batch")
SINKS = ("none", "heads")
_OFFSETS = (0.0, 100.0, -100.0)  # that rows have by turns: only differences count
_MANY_ROWS = 2  # that keep a compute unit busy: a workgroup each, however long they are
_HIDDEN = 3  # of so many rows of a mask, one hides everything

Numbers = NDArray[np.float64]


def layout(problem: Problem, binding: str) -> Layout:
    """A mask may be one for all of the batch."""
    b, c, h, w = (problem.shape[dim] for dim in DIMS)
    match binding:
        case "mask":
            return Layout.contiguous((b if problem.params["mask"] == "batch" else 1, h, w))
        case "sinks":
            return Layout.contiguous((c,))
        case _:
            return rows.layout(problem, binding)


def accepts(types: Mapping[str, str]) -> bool:
    """Numbers of 16 bits have a mask of halves, if any."""
    return types["x"] == "f32" or types["mask"] == "f16"


def cut_of(problem: Problem, device: DeviceFacts) -> Cut:
    b, c, h, w = (problem.shape[dim] for dim in DIMS)
    aligned = row_values.are_rows_aligned(problem, ("x", "y"), w)
    rows = b * c * h
    few = rows < busy(device, _MANY_ROWS) or not aligned
    at_once = 4 // problem.item_bytes("y")
    lanes = int(problem.params["lanes"])
    return Cut(
        rows=rows,
        columns=w,
        aligned=aligned,
        each=at_once,
        split=few,
        busy=busy(device, row_values.BUSY),
        asked=lanes,
    )


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    cut = cut_of(problem, device)
    _, c, h, w = (problem.shape[dim] for dim in DIMS)
    batch = h * w if problem.params["mask"] == "batch" else 0
    first, slope, more = slopes(problem)
    push: Push = {
        "x": place(problem.layout("x")),
        "y": place(problem.layout("y")),
        "cut": cut.push,
        "stretches": cut.stretches,
        "scale": float(problem.params["scale"]),
        "height": h,
        "heads": c,
        "mask_batch": batch,
        "more_heads": first,
        "slope": slope,
        "more_slope": more,
    }
    masked, sunk = (problem.params[name] != "none" for name in ("mask", "sinks"))
    return tuple(
        Launch(
            groups=cut.groups,
            push=push,
            constants={"MASKED": masked, "SUNK": sunk, **cut.constants},
            entry=cut.entry(name),
        )
        for name in steps(cut)
    )


def steps(cut: Cut) -> tuple[str, ...]:
    """What is launched one after the other."""
    if cut.whole:
        return ("softmax",)
    return ("parts", "finish") if cut.split else ("long_rows",)


def slopes(problem: Problem) -> tuple[int, float, float]:
    """Heads that are a power of two, and log2 of the slopes of the first and of those beyond."""
    most = 1 << floor(log2(problem.shape["c"]))
    bias = float(problem.params["max_bias"])
    return most, -bias / most, -bias / 2 / most


def exact_slopes(problem: Problem) -> Numbers:
    """A slope for each head."""
    most, slope, more = slopes(problem)
    heads = np.arange(problem.shape["c"])
    steps = np.where(heads < most, (heads + 1) * slope, (2 * (heads - most) + 1) * more)
    return np.asarray(2.0**steps)


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    cut = cut_of(problem, device)
    return (cut.rows * cut.stretches * 8,) if len(steps(cut)) > 1 else ()


def inputs(problem: Problem) -> dict[str, Array]:
    sinks = data.uniform(problem, "sinks", -10, 10)
    if problem.params["values"] == "special":
        x = data.values(problem, "x")
    else:
        fmt, uniform = problem.types["x"], data.uniform(problem, "x", -10, 10)
        offsets = np.resize(_OFFSETS, uniform.shape[-2])[:, None]
        x = quants.quantise(fmt, quants.dequantise(fmt, uniform) + offsets)
    return {"x": x, "mask": make_mask(problem), "sinks": sinks}


def make_mask(problem: Problem) -> Array:
    """A mask that hides a quarter of the columns, and of some rows everything."""
    mask = data.uniform(problem, "mask", -3, 3)
    bits = noise.raw(problem.seed("mask.hidden"), mask.size).reshape(mask.shape)
    mask[bits % 4 == 0] = -np.inf
    mask[:, _HIDDEN - 1 :: _HIDDEN] = -np.inf
    return mask


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    chosen = slice(None) if rows is None else rows
    x = quants.dequantise(problem.types["x"], inputs["x"][..., chosen, :])
    with np.errstate(invalid="ignore"):  # Inf - Inf, where x or its mask has them
        exponents = x * float(np.float32(problem.params["scale"]))
        if problem.params["mask"] != "none":
            mask = inputs["mask"][:, None, chosen].astype(np.float64)
            exponents += exact_slopes(problem)[:, None, None] * mask
        largest = exponents.max(axis=-1, keepdims=True)
        sinks = inputs["sinks"].astype(np.float64)[:, None, None]
        if problem.params["sinks"] != "none":
            largest = np.maximum(largest, sinks)
        powers = np.exp(exponents - np.where(np.isneginf(largest), 0, largest))
        total = powers.sum(axis=-1, keepdims=True)
        if problem.params["sinks"] != "none":
            total += np.exp(sinks - largest)
        return {"y": powers / np.where(total == 0, 1, total)}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """x has all four dimensions."""
    if len(shapes["x"]) != len(DIMS):
        raise UsageError(f"x has four dimensions ({', '.join(DIMS)}), got {len(shapes['x'])}")
    return dict(zip(DIMS, shapes["x"], strict=True))


def _arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return types["x"], types["mask"]


_SHAPES = (
    "b1_c2_h3_w1",
    "b1_c1_h5_w33",
    "b2_c3_h15_w16",
    "b1_c2_h37_w1023",
    "b2_c1_h3_w1024",
    "b1_c1_h2_w8192",
    "b1_c1_h3_w20000",
    "b1_c1_h2_w200001",
    "b1_c1_h257_w8196",
    "b1_c2_h3_w260/layout=strided,scale=0.1",
    "b1_c1_h64_w2/values=special",
    *(f"b1_c1_h3_w64/lanes={lanes}" for lanes in row_values.POSSIBLE),
    "b1_c1_h2_w9001/lanes=128",
)
_MASKED = (
    "f32/b2_c5_h7_w64/mask=batch,max_bias=8.0,sinks=heads",
    "f32/b1_c3_h5_w77/mask=all",
    "f32:mask=f16/b2_c4_h6_w256/mask=batch,max_bias=8.0,scale=0.1",
    "f32:mask=f16/b2_c6_h7_w1025/mask=all,layout=strided,max_bias=8.0,sinks=heads",
    "f32:mask=f16/b1_c2_h3_w16896/mask=all,sinks=heads",
    "f32:mask=f16/b1_c1_h64_w2/mask=all,values=special",
    "f32/b1_c3_h2_w64/sinks=heads",
    "f16:mask=f16/b1_c2_h3_w1",
    "f16:mask=f16/b2_c3_h37_w136",
    "f16:mask=f16/b2_c3_h5_w131/mask=batch,max_bias=8.0,sinks=heads",
    "f16:mask=f16/b1_c2_h3_w264/mask=all,layout=strided",
    "f16:mask=f16/b1_c1_h2_w70001/scale=0.5",
    "bf16:mask=f16/b1_c2_h3_w1",
    "bf16:mask=f16/b2_c3_h37_w136",
    "bf16:mask=f16/b2_c3_h5_w131/mask=batch,max_bias=8.0,sinks=heads",
    "bf16:mask=f16/b1_c2_h3_w264/mask=all,layout=strided",
    "bf16:mask=f16/b1_c1_h2_w70001/scale=0.5",
    "bf16:mask=f16/b1_c1_h64_w2/values=special",
)
_TIMED = (
    "f32/b1_c5_h4096_w4096",
    "f32/b1_c5_h256_w12888",
    "f32/b1_c5_h4096_w77",
    "f32/b1_c10_h1024_w1024",
    "f32/b1_c20_h64_w64",
    "f32/b1_c1_h16_w8192",
    "f32/b1_c1_h1_w131072",
    "f32/b1_c1_h16_w131072",
    "f32/b1_c1_h4_w524288",
    "f32:mask=f16/b1_c32_h512_w4096/mask=all",
    "f16:mask=f16/b1_c5_h4096_w4096",
    "f16:mask=f16/b1_c32_h512_w4096/mask=all",
    "bf16:mask=f16/b1_c5_h4096_w4096",
)

SOFTMAX_ROWS = Kernel(
    name="softmax",
    description="Softmax over rows of x * scale + slope * mask, and over a sink a head, if any.",
    group="softmax",
    dims=DIMS,
    bindings=(
        declare_input("x", TYPES, DIMS, "rows of numbers"),
        declare_input(
            "mask",
            ("f32", "f16"),
            ("b", "h", "w"),
            "what is added, alike for all heads",
            when={"mask": ("all", "batch")},
        ),
        declare_input(
            "sinks",
            ("f32",),
            ("c",),
            "an exponent that each head's sums have more",
            when={"sinks": ("heads",)},
        ),
        declare_output(
            "y", TYPES, DIMS, "rows that sum up to 1, less what the sinks have", same_as="x"
        ),
    ),
    tuning=row_values.tuning(cut_of),
    params={
        "lanes": row_values.LANES,
        "scale": Param(default=1.0, description="what x is multiplied by first"),
        "mask": Param(
            default="none",
            choices=MASKS,
            description="masks: none, one for all of the batch, or one each",
        ),
        "max_bias": Param(
            default=0.0,
            description="ALiBi: slopes of heads go from 1 down to 2^-max_bias; 0: all are 1",
        ),
        "sinks": Param(default="none", choices=SINKS, description="whether heads have sinks"),
        "layout": rows.LAYOUT,
        "values": data.VALUES,
    },
    forms=Forms(accepts=accepts, layout=layout, infer=infer),
    variants=(
        portable(
            "softmax",
            launch,
            "f32",
            arguments=_arguments,
            more=(
                Stage(entry="long_rows", arguments=_arguments),
                *row_values.stages(_arguments, "softmax", "parts", "finish"),
            ),
            own=Memory(scratch=scratch),
        ),
    ),
    inputs=inputs,
    check=Check(reference=reference, rows="h"),
    work=Work(flops=lambda problem: 5 * prod(problem.array_shape("x"))),
    cases=CaseList(
        lambda: (
            *(parse(f"softmax/f32/{shape}") for shape in _SHAPES),
            *(parse(f"softmax/{case}") for case in _MASKED),
        )
    ),
    timed=CaseList(lambda: (parse(f"softmax/{case}") for case in _TIMED)),
)

SOFTMAX = (SOFTMAX_ROWS, SOFTMAX_BACK)
