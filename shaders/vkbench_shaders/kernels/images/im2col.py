"""im2col: patches of arrays as rows of a matrix, which makes products of convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from vkbench.case import Case, parse
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
    too_large,
)
from vkbench_shaders.kernels.images import windows
from vkbench_shaders.kernels.images.windows import TAPS, Window
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import MOST_DIVIDED, divisor, power_of_two
from vkbench_shaders.quantisers import quants

THREADS = 128
EACH = 8  # rows a thread, in im2col
_ROW = Window(size=1, taps=1)


def axes(kernel: Kernel) -> str:
    """The axes of an array that patches have."""
    return "".join(dim for dim in kernel.dims if dim in TAPS)


def along(problem: Problem) -> tuple[Window, ...]:
    return windows.windows(problem, axes(problem.kernel))


def patches_layout(problem: Problem, binding: str) -> Layout:
    if binding == "x":
        return Layout.contiguous(problem.full_shape("x"))
    counts, taps = ([getattr(axis, name) for axis in along(problem)] for name in ("count", "taps"))
    return Layout.contiguous((problem.shape["n"], *counts, problem.shape["c"], *taps))


def patches_launch(problem: Problem, device: DeviceFacts) -> Launch:
    height, width = (_ROW, *along(problem))[-2:]
    words = problem.shape["c"] * height.taps * width.taps
    pixels = problem.shape["n"] * height.count * width.count
    lanes = min(THREADS, power_of_two(words))
    stretches = -(-words // lanes)
    rows = -(-pixels * problem.item_bytes("y") // 4)
    groups = grid(stretches * -(-rows // (EACH * THREADS // lanes)))
    push: Push = {
        "height": height.push,
        "width": width.push,
        "taps_w": divisor(width.taps),
        "taps_h": divisor(height.taps),
        "columns": divisor(width.count),
        "lines": divisor(height.count),
        "stretches": divisor(stretches),
        "words": words,
        "pixels": pixels,
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS, "LANES": lanes})


def volumes_launch(problem: Problem, device: DeviceFacts) -> Launch:
    """A thread for each 16 bytes of the patches."""
    count = prod(problem.array_shape("y"))
    groups = grid(-(-count * problem.item_bytes("y") // (16 * THREADS)))
    names = ("depth", "height", "width")
    push: Push = {
        **{name: axis.push for name, axis in zip(names, along(problem), strict=True)},
        "channels": problem.shape["c"],
        "count": count,
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def patches_refuses(problem: Problem, device: DeviceFacts) -> str | None:
    words = prod(problem.array_shape("y")) * problem.item_bytes("y") // 4
    if words >= 2 * MOST_DIVIDED:
        return f"y has {words} words: the kernel reaches {2 * MOST_DIVIDED}"
    return too_large(problem, device)


def patches(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"] if rows is None else inputs["x"][:, rows]
    seen = windows.taps(quants.dequantise(problem.types["x"], x), along(problem), 0.0)
    values_by_tap = np.stack([np.moveaxis(values, 1, -1) for _, values in seen], -1)
    return {
        "y": values_by_tap.reshape(
            *values_by_tap.shape[:-1], *(axis.taps for axis in along(problem))
        )
    }


def accepts(types: Mapping[str, str]) -> bool:
    """Whether y can hold x: an x of 16 bits stays in its format."""
    return types["x"] in ("f32", types["y"])


_SHAPES_3D = (
    "n1_c1_d1_h1_w1/kernel=1",
    "n1_c3_d5_h7_w9",
    "n2_c1_d4_h5_w6/kernel=2,padding=3",
    "n3_c2_d7_h11_w13/dilation=2,padding=2,stride=2",
    "n2_c5_d6_h6_w5/dilation_h=2,kernel_d=1,kernel_h=2,padding=1,padding_d=0,stride=2,stride_d=3",
    "n0_c3_d5_h5_w5",
)
_SHAPES = {
    "w": (
        "n1_c1_w1/kernel=1",
        "n2_c3_w17",
        "n1_c1_w5/kernel=2,padding=4",
        "n3_c5_w61/dilation=3,kernel=5,padding=6,stride=2",
        "n1_c43_w31/padding=1",
        "n2_c3_w9/kernel=2,stride=4",
        "n0_c3_w9",
    ),
    "hw": (
        "n1_c1_h1_w1/kernel=1",
        "n1_c3_h7_w9",
        "n2_c1_h5_w6/kernel=2,padding=3",
        "n3_c5_h11_w13/dilation=2,padding=2,stride=2",
        "n2_c15_h6_w5/dilation_h=2,kernel_h=2,padding=1,padding_h=0,stride=2,stride_h=1",
        "n1_c130_h4_w3/kernel=1",
        "n1_c2_h9_w7/kernel=1,stride=3",
        "n1_c29_h33_w31/padding=1",
    ),
    "dhw": _SHAPES_3D,
}
_TYPES = ("f32", "f32:y=f16", "f16:y=f16", "f32:y=bf16", "bf16:y=bf16")
_TIMED = {
    "w": ("f32/n8_c256_w8192/padding=1",),
    "hw": (
        "f32/n1_c256_h64_w64/padding=1",
        "f32/n1_c256_h256_w256/padding=1",
        "f32:y=f16/n1_c256_h256_w256/padding=1",
        "f32/n1_c256_h64_w64/kernel=5,padding=2",
        "f32/n1_c2560_h64_w64/padding=1",
        "f32:y=f16/n1_c2560_h64_w64/padding=1",
        "f32/n1_c2560_h32_w32/kernel=5,padding=2",
    ),
    "dhw": ("f32/n1_c16_d8_h64_w64/padding=1", "f32:y=f16/n1_c16_d8_h64_w64/padding=1"),
}


def _patches_cases(name: str, axes: str) -> Iterator[Case]:
    for types in _TYPES:
        shapes = _SHAPES[axes] if types in _TYPES[:2] else _SHAPES[axes][1:4]
        yield from (parse(f"{name}/{types}/{shape}") for shape in shapes)


def _im2col(name: str, axes: str, description: str) -> Kernel:
    """The kernel of so many axes: three have a shader of their own."""
    module, launch = ("im2col3d", volumes_launch) if len(axes) == 3 else ("im2col", patches_launch)
    return Kernel(
        name=name,
        group="conv",
        description=description,
        dims=("n", "c", *axes),
        bindings=(
            declare_input(
                "x",
                ("f32", "f16", "bf16"),
                ("n", "c", *axes),
                "arrays, one for each channel of each of n",
            ),
            declare_output(
                "y",
                ("f32", "f16", "bf16"),
                ("n", *axes, "c", *axes),
                "at each place of a window its patch: taps along the axes, by channel",
            ),
        ),
        params=windows.params(axes, "kernel", "stride", "padding", "dilation"),
        forms=Forms(accepts=accepts, layout=patches_layout, empty=("n",)),
        variants=(
            portable(
                module,
                launch,
                "exact",
                arguments=lambda types: (types["x"], types["y"]),
                refuses=patches_refuses,
            ),
        ),
        inputs=lambda problem: {"x": data.plain_values(problem, "x")},
        check=Check(reference=patches, rows="c"),
        work=Work(flops=lambda problem: 0),
        cases=CaseList(lambda: _patches_cases(name, axes)),
        timed=CaseList(lambda: (parse(f"{name}/{case}") for case in _TIMED[axes])),
    )


IM2COL = (
    _im2col("im2col1d", "w", "Lays out the patches that windows along the last axis see."),
    _im2col("im2col", "hw", "Lays out the patches that windows along the last two axes see."),
    _im2col("im2col3d", "dhw", "Lays out the patches that windows along the last three axes see."),
)
