"""rms_norm_rope: heads over their root mean square, times weights, and turned by their position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Arguments,
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Variant,
    Work,
)
from vkbench_shaders.kernels.rowwise import rope
from vkbench_shaders.kernels.shared.portable import portable

MOST = 1024  # numbers of a head, each lane of a workgroup having 16 bytes at least
_SUMS = 256  # of a workgroup's threads, behind its angles


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    turned = rope.launch(problem, 1.0, rope.MOST_ANGLES - _SUMS)
    return replace(turned, push={**turned.push, "eps": float(problem.params["eps"])}, entry="")


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if not is_possible(problem):
        return f"is for heads of {MOST} numbers at most, of which 16 bytes hold whole pairs"
    return rope.refuses(problem, device)


def is_possible(problem: Problem) -> bool:
    """Whether a lane can hold a piece of a head, and pieces have whole pairs."""
    return problem.shape["k"] <= MOST and rope.is_aligned(problem)


def inputs(problem: Problem) -> dict[str, Array]:
    return {**rope.inputs(problem), "weights": data.uniform(problem, "weights", -2, 2)}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, eps = inputs["x"].astype(np.float64), float(np.float32(problem.params["eps"]))
    normed = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    weighted = normed * inputs["weights"].astype(np.float64)
    return rope.reference(problem, {**inputs, "x": weighted}, rows, 1.0)


def normed_variant(
    launch: Callable[[Problem, DeviceFacts], Launch], arguments: Arguments
) -> Variant:
    """The code path of a kernel that turns normed heads; `arguments` say where rows of y lie."""
    return portable(
        "rope", launch, "f32", entry="rope_normed", arguments=arguments, refuses=refuses
    )


def layout(problem: Problem, binding: str) -> Layout:
    if binding in ("positions", "factors"):
        return rope.layout(problem, binding)
    return Layout.contiguous(problem.full_shape(binding))


_CASES = (
    "b1_n1_h1_k8",
    "b2_n3_h8_k128",
    "b1_n9_h3_k64/mode=neox",
    "b1_n33_h4_k80/eps=0.1,factors=given,mode=neox,n_dims=32",
    "b1_n5_h2_k96/factors=given",
    "b1_n7_h2_k128/mode=mrope",
    "b2_n5_h1_k128/mode=imrope,sections=24.20.20.0",
    "b1_n9_h4_k80/mode=vision,sections=20.20.20.20",
    "b1_n3_h3_k1024/mode=neox",
    "b1_n3_h2_k1024",
)
_TIMED = ("b1_n1_h32_k128/mode=neox", "b1_n512_h32_k128/mode=neox")

RMS_NORM_ROPE = Kernel(
    name="rms_norm_rope",
    description="Turns heads as rope does, once they are over their root mean square and times"
    " weights.",
    group="rope",
    dims=rope.DIMS,
    bindings=(
        declare_input("x", ("f32",), rope.DIMS, "heads of tokens"),
        *rope.ROPE[0].bindings[1:3],  # positions and factors
        declare_output("y", ("f32",), rope.DIMS, "the same, normalised and turned"),
        declare_input("weights", ("f32",), ("k",), "what heads are multiplied by"),
    ),
    params={
        "eps": Param(default=1e-5, least=0, description="what keeps a head of zeros finite"),
        **{name: param for name, param in rope.PARAMS.items() if name != "layout"},
    },
    forms=Forms(layout=layout, infer=rope.infer),
    variants=(normed_variant(launch, lambda types: ("rows_of_y",)),),
    inputs=inputs,
    check=Check(reference=reference, rows="n"),
    work=Work(flops=lambda problem: 8 * prod(problem.full_shape("x"))),
    cases=CaseList(lambda: (parse(f"rms_norm_rope/f32/{case}") for case in _CASES)),
    timed=CaseList(lambda: (parse(f"rms_norm_rope/f32/{case}") for case in _TIMED)),
)
