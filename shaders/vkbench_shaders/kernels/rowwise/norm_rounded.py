"""Norms whose results are rounded to blocks of q8_1, as products of quantised weights read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
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
    Binding,
    Check,
    Kernel,
    Launch,
    Param,
    Problem,
    Push,
    Work,
    too_large,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.row_values import Cut, place
from vkbench_shaders.kernels.shared.portable import portable

DIMS = ("b", "c", "h", "w")
_LANES = row_values.THREADS  # a workgroup holds a row
MOST = _LANES * row_values.EACH  # numbers of a row
_NUMBERS = ("x", "residual", "sum")  # the arrays of rows that are no blocks


@dataclass(frozen=True, kw_only=True)
class Norm:
    """What tells one from the other."""

    name: str
    description: str
    source: str  # in the shader

    @property
    def added(self) -> bool:
        """Whether a residual is added first, and the sum is a result too."""
        return self.source == "added"

    @property
    def rows(self) -> tuple[str, ...]:
        return _NUMBERS if self.added else _NUMBERS[:1]


def _cut(problem: Problem) -> Cut:
    b, c, h, w = (problem.shape[dim] for dim in DIMS)
    return Cut(rows=b * c * h, columns=w, aligned=True, asked=_LANES)


def launch(norm: Norm, problem: Problem, device: DeviceFacts) -> Launch:
    cut = _cut(problem)
    push: Push = {
        **dict.fromkeys((*_NUMBERS, "y"), (0, 0)),
        **{name: place(problem.layout(name)) for name in (*norm.rows, "y")},
        "cut": cut.push,
        "eps": float(problem.params["eps"]) + 0.0,  # never -0
    }
    held = -(-cut.columns // (4 * _LANES))
    return Launch(groups=cut.groups, push=push, constants={"LANES": _LANES, "HELD": held})


def refuses(norm: Norm, problem: Problem, device: DeviceFacts) -> str | None:
    if problem.shape["w"] > MOST:
        return f"is for rows of up to {MOST} numbers"
    if not row_values.are_rows_aligned(problem, norm.rows, problem.shape["w"]):
        return "is for rows that begin at 16 bytes"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Bell-shaped rows, some with outliers; weights of either sign."""
    return {
        b.name: data.uniform(problem, b.name, -2, 2)
        if b.name == "weights"
        else data.activations(problem, b.name).astype(np.float32)
        for b in problem.kernel.bindings
        if b.is_input
    }


def reference(norm: Norm, problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    taken = {name: array.astype(np.float64) for name, array in inputs.items()}
    if rows is not None:
        taken |= {name: taken[name][..., rows, :] for name in norm.rows if name in taken}
    total = taken["x"] + taken["residual"] if norm.added else taken["x"]
    eps = float(np.float32(problem.params["eps"]))
    with np.errstate(all="ignore"):  # a row of zeros without eps
        y = total / np.sqrt(np.square(total).mean(axis=-1, keepdims=True) + eps) * taken["weights"]
    return {"y": y, "sum": total} if norm.added else {"y": y}


def _bindings(norm: Norm) -> tuple[Binding, ...]:
    alone = (
        declare_input("x", ("f32",), DIMS, "what is normalised"),
        declare_input("weights", ("f32",), DIMS[-1:], "what results are multiplied by"),
        declare_output("y", ("q8_1",), DIMS, "the results, rounded to bytes"),
    )
    if not norm.added:
        return alone
    return (
        *alone,
        declare_input("residual", ("f32",), DIMS, "what is added to x first"),
        declare_output("sum", ("f32",), DIMS, "x and the residual, not normalised"),
    )


_SHAPES = (
    "b1_c1_h1_w32",
    "b1_c1_h1_w4096",
    "b1_c2_h3_w96",
    "b2_c1_h3_w2080",
    "b1_c1_h3_w8192",
    "b1_c3_h5_w256/eps=0.1",
)
_TIMED = ("b1_c1_h1_w4096", "b1_c1_h512_w4096")


def _parse_cases(norm: Norm, shapes: tuple[str, ...]) -> tuple[Case, ...]:
    return tuple(parse(f"{norm.name}/f32/{shape}") for shape in shapes)


def _arguments(norm: Norm, types: Mapping[str, str]) -> tuple[str, ...]:
    return (norm.source,)


def _kernel(norm: Norm) -> Kernel:
    return Kernel(
        name=norm.name,
        description=norm.description,
        group="norm",
        dims=DIMS,
        bindings=_bindings(norm),
        params={"eps": Param(default=1e-5, least=0, description="what keeps a row of 0 finite")},
        variants=(
            portable(
                "norm_rounded",
                partial(launch, norm),
                "f32",
                arguments=partial(_arguments, norm),
                refuses=partial(refuses, norm),
            ),
        ),
        inputs=inputs,
        check=Check(reference=partial(reference, norm), rows="h"),
        work=Work(flops=lambda problem: 5 * prod(problem.array_shape("x"))),
        cases=CaseList(lambda: _parse_cases(norm, _SHAPES)),
        timed=CaseList(lambda: _parse_cases(norm, _TIMED)),
    )


NORM_ROUNDED = tuple(
    map(
        _kernel,
        (
            Norm(
                name="rms_norm_q8_1",
                description="Rows over their root mean square, times weights, rounded to q8_1.",
                source="alone",
            ),
            Norm(
                name="add_rms_norm_q8_1",
                description=(
                    "Adds a residual to rows, keeps the sum, and makes rms_norm_q8_1 of it."
                ),
                source="added",
            ),
        ),
    )
)
