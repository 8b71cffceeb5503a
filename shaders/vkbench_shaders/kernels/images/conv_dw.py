"""Depthwise convolutions: each channel by itself, with taps of its own."""

from __future__ import annotations

from math import prod

import numpy as np

from vkbench.case import parse
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
    Layout,
    Problem,
    Push,
    Work,
    grid,
)
from vkbench_shaders.kernels.images import patches, windows
from vkbench_shaders.kernels.images.conv_layout import (
    LAYOUT,
    along,
    channels_last,
    is_last,
    put_channels_last,
)
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor
from vkbench_shaders.quantisers import quants

THREADS = 128
ROWS = 4  # of a thread
_DIMS = ("n", "c", "h", "w", "r", "s")


def layout(problem: Problem, binding: str) -> Layout:
    shape = problem.full_shape(binding)
    if binding == "weights":
        return _taps_last(shape) if is_last(problem) else Layout.contiguous(shape)
    if binding == "y":
        shape = (*shape[:2], *(axis.count for axis in along(problem)))
    return channels_last(shape) if is_last(problem) else Layout.contiguous(shape)


def _taps_last(shape: tuple[int, ...]) -> Layout:
    """Channels innermost: of weights they are the first dimension."""
    channels, _, width = shape
    strides = (1, width * channels, channels)
    return Layout(shape=shape, strides=strides, storage=prod(shape))


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    height, width = along(problem)
    channels, patches = problem.shape["c"], -(-height.count // ROWS)
    count = problem.shape["n"] * channels * patches * width.count
    groups = grid(-(-count // THREADS))
    push: Push = {
        "height": height.push,
        "width": width.push,
        "channels": divisor(channels),
        "patches": divisor(patches),
        "columns": divisor(width.count),
        "count": count,
        "groups_x": groups[0],
    }
    constants = {"THREADS": THREADS, "LAST": is_last(problem)}
    return Launch(groups=groups, push=push, constants=constants)


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    weights, x = inputs["weights"], inputs["x"]
    if rows is not None:
        weights, x = weights[rows], x[:, rows]
    taps = quants.dequantise(problem.types["weights"], weights)
    total = np.zeros((*x.shape[:2], *(axis.count for axis in along(problem))))
    for (r, s), seen in windows.taps(x.astype(np.float64), along(problem), 0.0):
        total += taps[:, r, s, np.newaxis, np.newaxis] * seen
    return {"y": total}


_SHAPES = (
    "n1_c1_h1_w1_r1_s1",
    "n0_c3_h4_w5_r2_s2",
    "n2_c9_h34_w17_r3_s3/padding=1",
    "n1_c64_h8_w32_r3_s3",
    "n3_c5_h7_w9_r2_s3/padding=4,stride=3",
    "n1_c3_h12_w10_r3_s2/dilation=3,dilation_h=2,padding=2,stride_h=2",
    "n1_c130_h5_w4_r5_s5/padding=2,stride=2",
    "n1_c2_h4_w5_r7_s1/padding=3",
)
_TIMED = (
    "n1_c256_h512_w512_r3_s3/padding=1",
    "n1_c32_h112_w112_r3_s3/padding=1",
    "n1_c128_h56_w56_r5_s5/padding=2,stride=2",
)

CONV_DW = (
    Kernel(
        name="conv2d_dw",
        group="conv",
        description="Convolves the last two axes, each channel with taps of its own.",
        dims=_DIMS,
        bindings=(
            declare_input("weights", patches.WEIGHTS, ("c", "r", "s"), "taps of each channel"),
            declare_input("x", ("f32",), _DIMS[:4], "arrays, one for each channel of each of n"),
            declare_output("y", ("f32",), _DIMS[:4], "sums over all taps, a number a window"),
        ),
        params={**windows.params("hw", "stride", "padding", "dilation"), "layout": LAYOUT},
        forms=Forms(layout=layout, empty=("n",)),
        variants=(portable("conv_dw", launch, "f32", arguments=lambda types: (types["weights"],)),),
        inputs=lambda problem: {name: data.bell(problem, name) for name in ("weights", "x")},
        check=Check(reference=reference, rows="c"),
        work=Work(
            flops=lambda problem: (
                2 * prod(problem.array_shape("y")) * prod(axis.taps for axis in along(problem))
            ),
        ),
        cases=CaseList(
            lambda: (
                made(f"conv2d_dw/{fmt}/{shape}")
                for fmt in patches.WEIGHTS
                for made in (parse, put_channels_last)
                for shape in _SHAPES
            )
        ),
        timed=CaseList(
            lambda: (
                *(
                    made(f"conv2d_dw/f32/{shape}")
                    for made in (parse, put_channels_last)
                    for shape in _TIMED
                ),
                parse(f"conv2d_dw/f16/{_TIMED[0]}"),
            )
        ),
    ),
)
