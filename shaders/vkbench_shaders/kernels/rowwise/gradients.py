"""Gradients of what works on rows: softmax_back and rms_norm_back, alike but for their formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
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
    Memory,
    Param,
    Problem,
    Push,
    Work,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.row_values import Cut, place
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants
from vkbench_shaders.tuning.rates import busy

DIMS = ("b", "c", "h", "w")
TYPES = ("f32", "f16", "bf16")
_SHAPES = (
    "b2_c3_h15_w16",
    "b1_c2_h37_w1023",
    "b1_c1_h2_w8192",
    "b1_c1_h3_w20000",
    "b1_c1_h2_w70001",
    "b1_c2_h3_w264/layout=strided",
)
_TIMED = ("b1_c5_h4096_w4096", "b1_c10_h1024_w1024")

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """One row of the table: what tells a gradient from the other."""

    name: str
    group: str
    description: str
    given: str  # the second input: what softmax made, or what the norm was made of
    given_description: str
    param: str  # a single number
    param_default: float
    param_description: str
    least: int  # columns of the shortest row: where it has one, rms_norm's gradient cancels out
    parts: str  # entry point that makes what a stretch adds
    part_bytes: int
    make: Callable[[Problem], Array]  # the second input
    formula: Callable[[Numbers, Numbers, float], Numbers]  # dy, given, number

    @property
    def arrays(self) -> tuple[str, str, str]:
        return ("dy", self.given, "dx")


def cut_of(gradient: Gradient, problem: Problem, device: DeviceFacts) -> Cut:
    b, c, h, w = (problem.shape[dim] for dim in DIMS)
    aligned = row_values.are_rows_aligned(problem, gradient.arrays, w)
    at_once, many = 4 // problem.item_bytes("dx"), busy(device, row_values.BUSY)
    return Cut(rows=b * c * h, columns=w, aligned=aligned, each=at_once, busy=many)


def launch(gradient: Gradient, problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    cut = cut_of(gradient, problem, device)
    push: Push = {
        **{name: place(problem.layout(name)) for name in gradient.arrays},
        "cut": cut.push,
        gradient.param: float(problem.params[gradient.param]),
    }
    return tuple(
        Launch(groups=cut.groups, push=push, constants=cut.constants, entry=cut.entry(name))
        for name in ((gradient.name,) if cut.whole else (gradient.parts, "finish"))
    )


def scratch(gradient: Gradient, problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    cut = cut_of(gradient, problem, device)
    return () if cut.whole else (cut.rows * cut.stretches * gradient.part_bytes,)


def inputs(gradient: Gradient, problem: Problem) -> dict[str, Array]:
    return {"dy": data.uniform(problem, "dy", -2, 2), gradient.given: gradient.make(problem)}


def reference(
    gradient: Gradient, problem: Problem, inputs: Arrays, rows: Array | None
) -> dict[str, Array]:
    chosen = slice(None) if rows is None else rows
    dy, given = (
        quants.dequantise(problem.types[name], inputs[name][..., chosen, :])
        for name in gradient.arrays[:2]
    )
    return {"dx": gradient.formula(dy, given, float(np.float32(problem.params[gradient.param])))}


def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return (types["dy"],)


def bindings(gradient: Gradient) -> tuple[Binding, ...]:
    return (
        declare_input("dy", TYPES, DIMS, "the gradient of the results"),
        declare_input(gradient.given, TYPES, DIMS, gradient.given_description, same_as="dy"),
        declare_output("dx", TYPES, DIMS, "the gradient of what they were made of", same_as="dy"),
    )


def kernel(gradient: Gradient) -> Kernel:
    number = Param(default=gradient.param_default, description=gradient.param_description)
    return Kernel(
        name=gradient.name,
        description=gradient.description,
        group=gradient.group,
        dims=DIMS,
        bindings=bindings(gradient),
        params={gradient.param: number, "layout": rows.LAYOUT},
        forms=Forms(layout=rows.layout),
        variants=(
            portable(
                gradient.name,
                lambda problem, device: launch(gradient, problem, device),
                "f32",
                arguments=arguments,
                more=row_values.stages(arguments, gradient.name, gradient.parts, "finish"),
                own=Memory(scratch=lambda problem, device: scratch(gradient, problem, device)),
            ),
        ),
        inputs=lambda problem: inputs(gradient, problem),
        check=Check(
            reference=lambda problem, inputs, rows: reference(gradient, problem, inputs, rows),
            rows="h",
        ),
        work=Work(flops=lambda problem: 5 * prod(problem.array_shape("dy"))),
        cases=CaseList(
            lambda: (
                parse(f"{gradient.name}/f32/b1_c1_h1_w{gradient.least}"),
                *(parse(f"{gradient.name}/{fmt}/{shape}") for fmt in TYPES for shape in _SHAPES),
                parse(f"{gradient.name}/f32/b1_c1_h3_w100/{gradient.param}=0.1"),
            )
        ),
        timed=CaseList(
            lambda: (parse(f"{gradient.name}/{fmt}/{shape}") for fmt in TYPES for shape in _TIMED)
        ),
    )


def softmax_rows(problem: Problem) -> Array:
    """Rows y as softmax makes them."""
    powers = np.exp(quants.dequantise(problem.types["y"], data.uniform(problem, "y", -4, 4)))
    return quants.quantise(problem.types["y"], powers / powers.sum(axis=-1, keepdims=True))


def softmax_back(dy: Numbers, y: Numbers, scale: float) -> Numbers:
    return np.asarray(scale * y * (dy - (dy * y).sum(axis=-1, keepdims=True)))


def rms_norm_back(dy: Numbers, x: Numbers, eps: float) -> Numbers:
    square = (x * x).mean(axis=-1, keepdims=True) + eps
    along = (x * dy).mean(axis=-1, keepdims=True)
    return np.asarray((dy - x * along / square) / np.sqrt(square))


SOFTMAX_BACK = kernel(
    Gradient(
        name="softmax_back",
        group="softmax",
        description="The gradient before softmax: dx = scale * y * (dy - sum(dy * y)) over rows.",
        given="y",
        given_description="what softmax made",
        param="scale",
        param_default=1.0,
        param_description="what softmax multiplied x by first",
        least=1,
        parts="dots",
        part_bytes=4,
        make=softmax_rows,
        formula=softmax_back,
    )
)

RMS_NORM_BACK = kernel(
    Gradient(
        name="rms_norm_back",
        group="norm",
        description="The gradient of rms_norm: dx = (dy - x * mean(x * dy) * r^2) * r over rows.",
        given="x",
        given_description="what was normalised",
        param="eps",
        param_default=1e-5,
        param_description="what rms_norm added to the mean square, of which r is 1 over the root",
        least=2,
        parts="sums",
        part_bytes=8,
        make=lambda problem: data.uniform(problem, "x", -3, 3),
        formula=rms_norm_back,
    )
)
