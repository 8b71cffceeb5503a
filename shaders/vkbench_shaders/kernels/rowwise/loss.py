"""Cross entropy of logits with target distributions, as a mean over rows, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping
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
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Memory,
    Problem,
    Push,
    Shapes,
    Stage,
    Work,
    matrix_shape,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.row_values import Cut, place
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

DIMS = ("n", "k")
SCALARS = ("loss", "gradient")
_LIKELY = 50  # of so many logits, one is far larger than the others

Numbers = NDArray[np.float64]


def layout(problem: Problem, binding: str) -> Layout:
    return Layout.contiguous((1,)) if binding in SCALARS else rows.layout(problem, binding)


def cut_of(problem: Problem, *bindings: str) -> Cut:
    """A row is one team's, however long."""
    n, k = problem.shape["n"], problem.shape["k"]
    aligned = row_values.are_rows_aligned(problem, bindings, k)
    at_once = 4 // problem.item_bytes("x")
    return Cut(rows=n, columns=k, aligned=aligned, each=at_once, split=False)


def push_of(problem: Problem, cut: Cut, *bindings: str) -> Push:
    return {
        "dx": (0, 0),  # where there is no gradient
        **{name: place(problem.layout(name)) for name in bindings},
        "cut": cut.push,
        "stretches": cut.stretches,
    }


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    cut = cut_of(problem, "x", "targets")
    push = push_of(problem, cut, "x", "targets")
    return (
        Launch(
            groups=cut.groups, push=push, constants=cut.constants, entry=cut.entry("row_losses")
        ),
        Launch(groups=(1, 1, 1), push=push, constants=row_values.ANY_SIZE, entry="mean_loss"),
    )


def back_launch(problem: Problem, device: DeviceFacts) -> Launch:
    cut = cut_of(problem, "x", "targets", "dx")
    push = push_of(problem, cut, "x", "targets", "dx")
    return Launch(
        groups=cut.groups, push=push, constants=cut.constants, entry=cut.entry("gradients")
    )


def inputs(problem: Problem) -> dict[str, Array]:
    """Logits of which some are far larger than the others; targets that sum up to 1."""
    x = data.values(problem, "x")
    if problem.params["values"] == "noise":
        logits = quants.dequantise(problem.types["x"], data.uniform(problem, "x", -4, 4))
        logits.reshape(-1)[::_LIKELY] += 20
        x = quants.quantise(problem.types["x"], logits)
    powers = np.exp(data.uniform(problem, "targets", -6, 6).astype(np.float64))
    targets = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    return {"x": x, "targets": targets}


def back_inputs(problem: Problem) -> dict[str, Array]:
    return {**inputs(problem), "gradient": data.uniform(problem, "gradient", 1, 2)}


def _logarithms(x: Numbers) -> Numbers:
    """Logarithms of the elements of softmax(x)."""
    below = x - x.max(axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    with np.errstate(invalid="ignore"):  # x may be NaN or Inf
        logarithms = _logarithms(quants.dequantise(problem.types["x"], inputs["x"]))
        return {"loss": -(logarithms * inputs["targets"]).sum(axis=-1).mean(keepdims=True)}


def back_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    chosen = slice(None) if rows is None else rows
    with np.errstate(invalid="ignore"):
        logarithms = _logarithms(quants.dequantise(problem.types["x"], inputs["x"][chosen]))
        less = np.exp(logarithms) - inputs["targets"][chosen].astype(np.float64)
    return {"dx": less * float(inputs["gradient"][0]) / problem.shape["n"]}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    n, k = matrix_shape("x", shapes, types)
    return {"n": n, "k": k}


def _arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return (types["x"],)


PARAMS = {"layout": rows.LAYOUT, "values": data.VALUES}
FORMATS = ("f32", "f16", "bf16")
X = declare_input("x", FORMATS, DIMS, "logits, a row each")
TARGETS = declare_input(
    "targets", ("f32",), DIMS, "the distributions that are wanted: rows that sum up to 1"
)

_SHAPES = (
    "f32/n1_k1",
    "f32/n37_k10",
    "f32/n3_k1021",
    "f32/n130_k256",
    "f32/n2_k8192",
    "f32/n3_k32000",
    "f32/n2_k20001",
    "f32/n5_k264/layout=strided",
    "f16/n5_k33",
    "f16/n70_k128",
    "f16/n2_k16896",
    "f16/n3_k8193/layout=strided",
    "bf16/n5_k33",
    "bf16/n70_k128",
)
_TIMED = ("f32/n512_k32000", "f32/n4096_k4096", "f32/n128_k128256", "f16/n512_k32000")

LOSS = (
    Kernel(
        name="cross_entropy",
        description="Mean over rows of -sum(targets * log(softmax(x))), a single number.",
        group="loss",
        dims=DIMS,
        bindings=(
            X,
            TARGETS,
            declare_output("loss", ("f32",), ("n",), "one number"),
        ),
        params=PARAMS,
        forms=Forms(layout=layout, infer=infer),
        variants=(
            portable(
                "loss",
                launch,
                "f32",
                entry="row_losses",
                arguments=_arguments,
                more=(*row_values.stages(_arguments, "row_losses"), Stage(entry="mean_loss")),
                own=Memory(scratch=lambda problem, device: (4 * problem.shape["n"],)),
            ),
        ),
        inputs=inputs,
        check=Check(reference=reference),
        work=Work(flops=lambda problem: 6 * prod(problem.shape.values())),
        cases=CaseList(
            lambda: (
                *(parse(f"cross_entropy/{shape}") for shape in _SHAPES),
                parse("cross_entropy/f32/n2_k5/values=special"),
            )
        ),
        timed=CaseList(lambda: (parse(f"cross_entropy/{shape}") for shape in _TIMED)),
    ),
    Kernel(
        name="cross_entropy_back",
        description="The gradient of cross_entropy by logits: (softmax(x) - targets) / rows.",
        group="loss",
        dims=DIMS,
        bindings=(
            X,
            TARGETS,
            declare_input(
                "gradient",
                ("f32",),
                ("n",),
                "that of the loss: one number, which results are multiplied by",
            ),
            declare_output("dx", FORMATS, DIMS, "the gradient", same_as="x"),
        ),
        params=PARAMS,
        forms=Forms(layout=layout, infer=infer),
        variants=(
            portable(
                "loss",
                back_launch,
                "f32",
                entry="gradients",
                arguments=_arguments,
                more=row_values.stages(_arguments, "gradients"),
            ),
        ),
        inputs=back_inputs,
        check=Check(reference=back_reference, rows="n"),
        work=Work(flops=lambda problem: 6 * prod(problem.shape.values())),
        cases=CaseList(
            lambda: (
                *(parse(f"cross_entropy_back/{shape}") for shape in _SHAPES),
                parse("cross_entropy_back/f32/n64_k2/values=special"),
            )
        ),
        timed=CaseList(lambda: (parse(f"cross_entropy_back/{shape}") for shape in _TIMED)),
    ),
)
