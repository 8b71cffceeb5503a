"""col2im: columns of a product added up, which makes convolutions of transposed ones."""

from __future__ import annotations

from math import prod

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
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
    Param,
    Problem,
    Push,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import MOST_DIVIDED, divisor
from vkbench_shaders.quantisers import quants

THREADS = 128


def outputs(problem: Problem) -> int:
    """Length of what columns add up to; UsageError where padding leaves nothing."""
    stride, padding = int(problem.params["stride"]), int(problem.params["padding"])
    length = (problem.shape["w"] - 1) * stride + problem.shape["s"] - 2 * padding
    if length < 1:
        raise UsageError(f"columns add up to {length + 2 * padding} numbers: nothing is left")
    return length


def layout(problem: Problem, binding: str) -> Layout:
    if binding == "x":
        return Layout.contiguous(problem.full_shape("x"))
    return Layout.contiguous((problem.shape["n"], problem.shape["o"], outputs(problem)))


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    count = prod(problem.array_shape("y"))
    groups = grid(-(-count * problem.item_bytes("y") // (16 * THREADS)))
    push: Push = {
        "columns": problem.shape["w"],
        "taps": problem.shape["s"],
        "padding": int(problem.params["padding"]),
        "channels": divisor(problem.shape["o"]),
        "outputs": divisor(outputs(problem)),
        "stride": divisor(int(problem.params["stride"])),
        "count": count,
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if prod(problem.array_shape("y")) >= MOST_DIVIDED:
        return f"y is too large: the kernel counts to {MOST_DIVIDED}"
    return too_large(problem, device)


def sums(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"] if rows is None else inputs["x"][:, :, rows]
    columns = np.moveaxis(quants.dequantise(problem.types["x"], x).astype(np.float64), 1, -1)
    stride, padding = int(problem.params["stride"]), int(problem.params["padding"])
    length = outputs(problem)
    total = np.zeros((*columns.shape[:2], length + 2 * padding))
    for tap in range(columns.shape[2]):
        last = tap + (columns.shape[3] - 1) * stride
        total[:, :, tap : last + 1 : stride] += columns[:, :, tap]
    return {"y": total[:, :, padding : padding + length]}


_COLUMNS = (
    "n1_w1_o1_s1",
    "n1_w7_o3_s4/padding=1,stride=2",
    "n2_w17_o5_s16/padding=4,stride=8",
    "n3_w13_o2_s3/stride=5",
    "n1_w29_o11_s7",
    "n1_w2_o1_s9/padding=5,stride=3",
    "n0_w2_o1_s2",
)
_ALONG_ONE = Kernel(
    name="col2im1d",
    group="conv",
    description="Adds up the columns of a transposed convolution along one axis, in order.",
    dims=("n", "w", "o", "s"),
    bindings=(
        declare_input(
            "x",
            ("f32", "f16", "bf16"),
            ("n", "w", "o", "s"),
            "a column of taps for each channel, at each of w places",
        ),
        declare_output(
            "y",
            ("f32", "f16", "bf16"),
            ("n", "o", "w"),
            "channels; place w begins at w times the stride, less the padding",
            same_as="x",
        ),
    ),
    params={
        "stride": Param(default=1, least=1, description="places from one column to the next"),
        "padding": Param(default=0, least=0, description="places left out at both ends"),
    },
    forms=Forms(layout=layout, empty=("n",)),
    variants=(
        portable("col2im", launch, "f32", arguments=lambda types: (types["x"],), refuses=refuses),
    ),
    inputs=lambda problem: {"x": data.plain_values(problem, "x")},
    check=Check(reference=sums, rows="o"),
    work=Work(flops=lambda problem: prod(problem.array_shape("x"))),
    cases=CaseList(
        lambda: (
            parse(f"col2im1d/{fmt}/{shape}") for fmt in ("f32", "f16", "bf16") for shape in _COLUMNS
        )
    ),
    timed=CaseList(
        lambda: (
            *(parse(f"col2im1d/{fmt}/n1_w2048_o512_s16/stride=8") for fmt in ("f32", "f16")),
            parse("col2im1d/f32/n1_w65536_o128_s4/stride=2"),
        )
    ),
)


COL2IM = (_ALONG_ONE,)
