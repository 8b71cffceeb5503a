"""Upsampling along one axis or two: the nearest number, the mean of four by distance, or cubic.

Output i lies at i * size / outputs of its axis, and the nearest number is that before it: as torch
has it, but with fractions of integers, which no rounding can put in the wrong place. Bilinear
and cubic places are those of the outputs' middles, or of the corners' under `corners=align`. Under
`antialias=yes` an output is the mean under a triangle that is a step of y wide to each side, if
that is more than a step of x: fewer outputs than numbers leave none out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

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

FORMATS = ("f32", "f16", "bf16")
THREADS = 128
_SIZES = {"h": "height", "w": "width"}


@dataclass(frozen=True)
class Upsample:
    """One operation: how it makes an output, along which axes."""

    name: str
    axes: str
    type: str  # in the shader
    path: str
    description: str

    @property
    def dims(self) -> tuple[str, ...]:
        return ("n", "c", *self.axes)


@dataclass(frozen=True, kw_only=True)
class AxisScale:
    """Where outputs lie along an axis: at (i * factor + shift) / denominator, not below 0."""

    size: int
    outputs: int
    factor: int
    shift: int
    denominator: int

    @property
    def push(self) -> Push:
        """Push constants of the shader's struct Scale."""
        return {
            "size": self.size,
            "factor": self.factor,
            "shift": self.shift,
            "denominator": divisor(self.denominator),
        }

    @property
    def places(self) -> tuple[Array, Array]:
        """The number before each output, and the part of a step from there to it."""
        at = np.maximum(np.arange(self.outputs) * self.factor + self.shift, 0)
        return at // self.denominator, at % self.denominator / self.denominator

    @property
    def whole_places(self) -> tuple[Array, Array]:
        """The same of places that may lie before the first number, whose index is -1 then."""
        at = np.arange(self.outputs) * self.factor + self.shift
        return at // self.denominator, at % self.denominator / self.denominator

    @property
    def triangles(self) -> Array:
        """The share of each number in each output, a row an output."""
        step = self.size / self.outputs
        middles = (np.arange(self.outputs)[:, None] + 0.5) * step
        far = np.abs(np.arange(self.size) + 0.5 - middles) / max(1.0, step)
        weights = np.maximum(1 - far, 0)
        shares: Array = weights / weights.sum(axis=1, keepdims=True)
        return shares


_ROW = AxisScale(size=1, outputs=1, factor=1, shift=0, denominator=1)


def scale(problem: Problem, axis: str) -> AxisScale:
    size = problem.shape[axis]
    outputs = int(problem.params[_SIZES[axis]]) or int(problem.params["factor"]) * size
    match problem.params.get("corners"):
        case None:
            factor, shift, denominator = size, 0, outputs
        case "align":
            factor, shift, denominator = size - 1, 0, max(1, outputs - 1)
        case _:
            # in lowest terms: devices divide by a power of two exactly, and by 28 need not, and
            # where numbers are doubled, sums often lie in the middle between two of f16
            common = gcd(size, outputs)
            step, steps = size // common, outputs // common
            factor, shift, denominator = 2 * step, step - steps, 2 * steps
    return AxisScale(
        size=size, outputs=outputs, factor=factor, shift=shift, denominator=denominator
    )


def scales(problem: Problem) -> tuple[AxisScale, AxisScale]:
    """Along height and width; arrays of one axis have one row."""
    height = scale(problem, "h") if "h" in problem.shape else _ROW
    return height, scale(problem, "w")


def layout(problem: Problem, binding: str) -> Layout:
    if binding == "x":
        return Layout.contiguous(problem.full_shape("x"))
    axes = [axis for axis in problem.kernel.dims if axis in _SIZES]
    outputs = [scale(problem, axis).outputs for axis in axes]
    return Layout.contiguous((problem.shape["n"], problem.shape["c"], *outputs))


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    height, width = scales(problem)
    count = prod(problem.array_shape("y"))
    groups = grid(-(-count * problem.item_bytes("y") // (16 * THREADS)))
    push: Push = {
        "height": height.push,
        "width": width.push,
        "rows": divisor(height.outputs),
        "columns": divisor(width.outputs),
        "count": count,
        "groups_x": groups[0],
    }
    constants = {"THREADS": THREADS, "ANTIALIAS": _is_smoothed(problem)}
    return Launch(groups=groups, push=push, constants=constants)


def _is_smoothed(problem: Problem) -> bool:
    return problem.params.get("antialias") == "yes"


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if _is_smoothed(problem) and problem.params["corners"] == "align":
        return "antialias=yes is for corners=middle"
    around = "corners" in problem.params  # places may be counted from one or two steps before
    numerators = [
        axis.outputs * axis.factor + around * 2 * max(axis.denominator, axis.factor)
        for axis in scales(problem)
    ]
    if max(prod(problem.array_shape("y")), *numerators) >= MOST_DIVIDED:
        return f"y is too large: the kernel counts to {MOST_DIVIDED}"
    return too_large(problem, device)


def nearest(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"] if rows is None else inputs["x"][:, rows]
    for axis in range(2, x.ndim):
        x = x.take(scale(problem, problem.kernel.dims[axis]).places[0], axis)
    return {"y": x}


def bilinear(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"] if rows is None else inputs["x"][:, rows]
    values = quants.dequantise(problem.types["x"], x)
    if _is_smoothed(problem):
        height, width = (axis.triangles for axis in scales(problem))
        return {"y": height @ values @ width.T}
    for axis, name in ((3, "w"), (2, "h")):
        before, part = scale(problem, name).places
        behind = np.minimum(before + 1, problem.shape[name] - 1)
        part = part.reshape(-1, *[1] * (3 - axis))
        values = (1 - part) * values.take(before, axis) + part * values.take(behind, axis)
    return {"y": values}


def bicubic(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = inputs["x"] if rows is None else inputs["x"][:, rows]
    values = quants.dequantise(problem.types["x"], x)
    for axis, name in ((3, "w"), (2, "h")):
        before, part = scale(problem, name).whole_places
        part = part.reshape(-1, *[1] * (3 - axis))
        last = problem.shape[name] - 1
        terms = [
            _cubic(np.abs(part - tap)) * values.take(np.clip(before + tap, 0, last), axis)
            for tap in (-1, 0, 1, 2)
        ]
        values = np.sum(terms, axis=0)
    return {"y": values}


def _cubic(far: Array) -> Array:
    """The weight of a number so far away: two cubic curves, of slope -0.75 where they meet."""
    near = (1.25 * far - 2.25) * far**2 + 1
    outer = -0.75 * (((far - 5) * far + 8) * far - 4)
    weights: Array = np.where(far <= 1, near, outer)
    return weights


_SHAPES = {
    "w": (
        "n1_c1_w1",
        "n1_c1_w1/width=7",
        "n2_c3_w17",
        "n2_c3_w17/width=5",
        "n3_c5_w61/factor=3",
        "n1_c7_w101/width=1033",
        "n2_c3_w37/factor=1",
    ),
    "hw": (
        "n1_c1_h1_w1",
        "n1_c1_h1_w1/height=3,width=5",
        "n2_c3_h5_w7",
        "n2_c5_h11_w13/height=7,width=5",
        "n2_c3_h5_w7/height=11,width=13",
        "n1_c3_h9_w10/factor=3",
        "n3_c2_h31_w33/height=37,width=129",
        "n0_c2_h3_w4",
    ),
}
_TIMED = {
    "w": ("n16_c512_w8192",),
    "hw": ("n8_c64_h256_w256", "n1_c3_h2048_w2048/height=3001,width=3001"),
}
_UPSAMPLES = (
    Upsample(
        "upsample_nearest1d",
        "w",
        "Nearest",
        "exact",
        "Repeats numbers along the last axis until it is as long as asked.",
    ),
    Upsample(
        "upsample_nearest2d",
        "hw",
        "Nearest",
        "exact",
        "Repeats numbers along the last two axes until they are as long as asked.",
    ),
    Upsample(
        "upsample_bilinear2d",
        "hw",
        "Bilinear",
        "f32",
        "Makes the last two axes longer: means of the four numbers around each place.",
    ),
    Upsample(
        "upsample_bicubic2d",
        "hw",
        "Bicubic",
        "f32",
        "Makes the last two axes longer: cubic curves through sixteen numbers around each place.",
    ),
)
_REFERENCES = {"Nearest": nearest, "Bilinear": bilinear, "Bicubic": bicubic}
_FLOPS = {"Nearest": 0, "Bilinear": 9, "Bicubic": 40}  # of an output
_SMOOTHED = (
    "n2_c3_h5_w7",
    "n2_c5_h11_w13/height=7,width=5",
    "n1_c2_h61_w1/height=3,width=4",
    "n3_c2_h31_w33/height=37,width=2",
)


def _cases(upsample: Upsample) -> Iterator[Case]:
    own = "values=special" if upsample.type == "Nearest" else "corners=align"
    for fmt in FORMATS[:2]:
        for shape in _SHAPES[upsample.axes]:
            yield parse(f"{upsample.name}/{fmt}/{shape}")
        for shape in _SHAPES[upsample.axes][1:4]:
            yield _case(upsample, fmt, shape, own)
        if upsample.type == "Bilinear":
            yield from (_case(upsample, fmt, shape, "antialias=yes") for shape in _SMOOTHED)
    yield from (parse(f"{upsample.name}/bf16/{shape}") for shape in _SHAPES[upsample.axes][2:5:2])


def _case(upsample: Upsample, fmt: str, shape: str, param: str) -> Case:
    dims, _, sizes = shape.partition("/")
    return parse(f"{upsample.name}/{fmt}/{dims}/{','.join(filter(None, (param, sizes)))}")


def _timed_cases(upsample: Upsample) -> Iterator[Case]:
    first, *others = _TIMED[upsample.axes]
    yield from (parse(f"{upsample.name}/f32/{shape}") for shape in (first, *others))
    yield parse(f"{upsample.name}/f16/{first}")


def _params(upsample: Upsample) -> dict[str, Param]:
    sizes = {
        _SIZES[axis]: Param(
            default=0, least=0, description=f"size of y along {axis}; 0: factor times that of x"
        )
        for axis in upsample.axes
    }
    factor = Param(default=2, least=1, description="how many times as long axes become")
    corners = Param(
        default="middle",
        choices=("middle", "align"),
        description="places of outputs: middles of equal parts, or the corners on the corners",
    )
    antialias = Param(
        default="no",
        choices=("no", "yes"),
        description="whether outputs are means of all that is nearer than their distance",
    )
    own = {
        "Nearest": {"values": data.VALUES},
        "Bilinear": {"corners": corners, "antialias": antialias},
        "Bicubic": {"corners": corners},
    }
    return {"factor": factor, **sizes, **own[upsample.type]}


def _inputs(problem: Problem) -> dict[str, Array]:
    make = data.values if "values" in problem.params else data.plain_values
    return {"x": make(problem, "x")}


def _kernel(upsample: Upsample) -> Kernel:
    return Kernel(
        name=upsample.name,
        group="upsample",
        description=upsample.description,
        dims=upsample.dims,
        bindings=(
            declare_input("x", FORMATS, upsample.dims, "arrays, one for each channel of each of n"),
            declare_output("y", FORMATS, upsample.dims, "larger ones, or smaller", same_as="x"),
        ),
        params=_params(upsample),
        forms=Forms(layout=layout, empty=("n",)),
        variants=(
            portable(
                "upsample",
                launch,
                upsample.path,
                arguments=lambda types: (f"{upsample.type}<{types['x']}>", types["x"]),
                refuses=refuses,
            ),
        ),
        inputs=_inputs,
        check=Check(reference=_REFERENCES[upsample.type], rows="c"),
        work=Work(flops=lambda problem: prod(problem.array_shape("y")) * _FLOPS[upsample.type]),
        cases=CaseList(lambda: _cases(upsample)),
        timed=CaseList(lambda: _timed_cases(upsample)),
    )


UPSAMPLE = tuple(_kernel(upsample) for upsample in _UPSAMPLES)
