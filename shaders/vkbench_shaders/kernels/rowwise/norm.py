"""Norms: rows less their mean, over their size, fused with weights and biases.

eps is added to the mean square, save by l2_norm: that divides by the norm, eps at the least, as
torch.nn.functional.normalize does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
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
    Layout,
    Memory,
    Param,
    Problem,
    Push,
    Shapes,
    Stage,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.gradients import RMS_NORM_BACK
from vkbench_shaders.kernels.rowwise.row_values import Cut, place
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor
from vkbench_shaders.quantisers import quants
from vkbench_shaders.tuning.rates import busy

DIMS = ("b", "c", "h", "w")
FUSED = ("none", "mul", "mul_add")
TYPES = ("f32", "f16", "bf16")
ROWS = ("x", "y", "residual", "sum")  # the arrays that have rows; the last two where x is added to
_OFFSETS = (0.0, 1.0, -30.0, 1000.0)  # that rows have by turns: means far larger than deviations
_MOMENTS = 16  # bytes that a stretch leaves for the step behind

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Norm:
    """One row of the table: what tells a norm from the others."""

    name: str
    description: str
    eps: float = 1e-5
    centred: bool = False  # whether a mean is taken off
    l2: bool = False  # by the norm, not by the root of the mean square
    grouped: bool = False  # over groups of channels, not over w
    added: bool = False  # of x and a residual, whose sum is a result too

    @property
    def rows(self) -> tuple[str, ...]:
        """The arrays that have rows."""
        return ROWS if self.added else ROWS[:2]


def layout(problem: Problem, binding: str) -> Layout:
    """Weights and biases have no gaps."""
    if binding not in ("weights", "biases"):
        return rows.layout(problem, binding)
    return Layout.contiguous(problem.full_shape(binding))


def cut_of(norm: Norm, problem: Problem, device: DeviceFacts) -> Cut:
    b, c, h, w = (problem.shape[dim] for dim in DIMS)
    many, lanes = busy(device, row_values.BUSY), int(problem.params["lanes"])
    if not norm.grouped:
        aligned = row_values.are_rows_aligned(problem, norm.rows, w)
        at_once = 4 // problem.item_bytes("y")
        return Cut(rows=b * c * h, columns=w, aligned=aligned, each=at_once, busy=many, asked=lanes)
    groups = int(problem.params["groups"])
    columns = c // groups * h * w
    at_once = 16 // problem.item_bytes("x")
    fits = columns % at_once == 0 and (problem.params["fused"] == "none" or h * w % 4 == 0)
    return Cut(
        rows=b * groups, columns=columns, aligned=fits, each=at_once // 4, busy=many, asked=lanes
    )


def launch(norm: Norm, problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    cut, groups = cut_of(norm, problem, device), int(problem.params.get("groups", 1))
    _, c, h, w = (problem.shape[dim] for dim in DIMS)
    each_row = grid(cut.rows)
    push: Push = {
        **dict.fromkeys(ROWS, (0, 0)),
        **{
            name: (0, cut.columns) if norm.grouped else place(problem.layout(name))
            for name in norm.rows
        },
        "cut": cut.push,
        "rows_x": each_row[0],
        "l2": norm.l2,
        "eps": float(problem.params["eps"]) + 0.0,  # never -0
        "groups": groups,
        "channels": c // groups,
        "area": divisor(h * w),
    }
    fused = FUSED.index(str(problem.params["fused"]))
    constants = {
        "CENTRED": norm.centred,
        "FUSED": fused,
        "GROUPED": norm.grouped and fused > 0,
        **cut.constants,
    }
    if cut.whole:
        steps = [(cut.entry("norm"), cut.groups)]
    else:
        moments, finish = cut.entry("moments"), cut.entry("finish")
        steps = [(moments, cut.groups), ("gather", each_row), (finish, cut.groups)]
    return tuple(
        Launch(groups=size, push=push, constants=constants, entry=entry) for entry, size in steps
    )


def scratch(norm: Norm, problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    cut = cut_of(norm, problem, device)
    return () if cut.whole else (cut.rows * (cut.stretches + 1) * _MOMENTS,)


def refuses(norm: Norm, problem: Problem, device: DeviceFacts) -> str | None:
    groups = int(problem.params.get("groups", 1))
    if problem.shape["c"] % groups:
        return f"{problem.shape['c']} channels do not make {groups} groups"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    return {b.name: _draw_input(problem, b) for b in problem.kernel.bindings if b.is_input}


def _draw_input(problem: Problem, binding: Binding) -> Array:
    if binding.name in ("weights", "biases"):
        return data.uniform(problem, binding.name, -2, 2)
    values = data.values(problem, binding.name)
    if problem.params["values"] == "noise" and binding.name == "x":
        fmt, offsets = problem.types["x"], np.resize(_OFFSETS, values.shape[-2])
        values = quants.quantise(fmt, quants.dequantise(fmt, values) + offsets[:, None])
    return values


def reference(norm: Norm, problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = {name: _exact(problem, inputs, name, rows) for name in norm.rows if name in inputs}
    total = x["x"] + x["residual"] if norm.added else x["x"]
    groups = int(problem.params.get("groups", 1))
    flat = total.reshape(len(total), groups, -1) if norm.grouped else total
    with np.errstate(all="ignore"):  # a row may be Inf, or 0 without eps
        y = _normalise_rows(norm, flat, float(np.float32(problem.params["eps"]))).reshape(
            total.shape
        )
        for fused, (name, combine) in enumerate((("weights", np.multiply), ("biases", np.add))):
            if FUSED.index(str(problem.params["fused"])) > fused:
                factors = inputs[name].astype(np.float64)
                y = combine(y, factors[:, None, None] if norm.grouped else factors)
    return {"y": y, "sum": total} if norm.added else {"y": y}


def _exact(problem: Problem, inputs: Arrays, name: str, rows: Array | None) -> Numbers:
    stored = inputs[name] if rows is None else inputs[name][..., rows, :]
    return quants.dequantise(problem.types[name], stored)


def _normalise_rows(norm: Norm, x: Numbers, eps: float) -> Numbers:
    if norm.centred:
        x = x - x.mean(axis=-1, keepdims=True)
    squares = x * x
    if norm.l2:
        size = np.maximum(np.sqrt(squares.sum(axis=-1, keepdims=True)), eps)
    else:
        size = np.sqrt(squares.mean(axis=-1, keepdims=True) + eps)
    return np.asarray(x / size)


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """x has all four dimensions."""
    if len(shapes["x"]) != len(DIMS):
        raise UsageError(f"x has four dimensions ({', '.join(DIMS)}), got {len(shapes['x'])}")
    return dict(zip(DIMS, shapes["x"], strict=True))


def params(norm: Norm) -> dict[str, Param]:
    shared = {
        "eps": Param(default=norm.eps, least=0, description="what keeps a row of zeros finite"),
        "fused": Param(
            default="none",
            choices=FUSED,
            description="what follows: nothing, times weights, times weights and plus biases",
        ),
        "values": data.VALUES,
        "lanes": row_values.LANES,
    }
    if norm.grouped:
        return {"groups": Param(default=32, least=1, description="groups of channels"), **shared}
    return {"layout": rows.LAYOUT, **shared}


def bindings(norm: Norm) -> tuple[Binding, ...]:
    along = ("c",) if norm.grouped else ("w",)

    def declare_factors(name: str, description: str, *fused: str) -> Binding:
        return declare_input(name, ("f32",), along, description, when={"fused": fused})

    alone = (
        declare_input("x", TYPES, DIMS, "what is normalised"),
        declare_factors("weights", "what results are multiplied by", "mul", "mul_add"),
        declare_factors("biases", "what is added then", "mul_add"),
        declare_output("y", TYPES, DIMS, "the results", same_as="x"),
    )
    if not norm.added:
        return alone
    return (
        *alone,
        declare_input("residual", TYPES, DIMS, "what is added to x first", same_as="x"),
        declare_output("sum", TYPES, DIMS, "x and the residual, not normalised", same_as="x"),
    )


_ROWS = {
    "f32": (
        "b1_c1_h1_w1",
        "b1_c2_h3_w33",
        "b1_c2_h3_w64",
        "b1_c2_h3_w511",
        "b1_c2_h3_w1025",
        "b2_c3_h37_w260",
        "b2_c1_h4_w8192/fused=mul",
        "b1_c2_h3_w8191/fused=mul_add,layout=strided",
        "b1_c1_h3_w16896",
        "b1_c1_h2_w70001/fused=mul_add",
        "b1_c3_h5_w260/layout=strided",
        "b1_c3_h5_w64/eps=0.1",
        "b1_c1_h64_w2/values=special",
        *(f"b1_c1_h3_w64/lanes={lanes}" for lanes in row_values.POSSIBLE),
        "b1_c1_h2_w9001/fused=mul_add,lanes=128",
    ),
    "f16": (
        "b1_c2_h3_w1",
        "b1_c2_h3_w64",
        "b2_c3_h37_w260",
        "b2_c1_h4_w8192",
        "b1_c2_h3_w8191/fused=mul_add,layout=strided",
        "b1_c1_h3_w16896/fused=mul",
        "b1_c1_h2_w70001",
        "b1_c1_h64_w2/values=special",
    ),
    "bf16": (
        "b1_c2_h3_w1",
        "b2_c3_h37_w264/fused=mul",
        "b1_c2_h3_w8191/fused=mul_add,layout=strided",
        "b1_c1_h2_w70001",
        "b1_c1_h64_w2/values=special",
    ),
}
_GROUPS: tuple[str, ...] = (
    "b1_c1_h1_w1/groups=1",
    "b1_c320_h8_w8",
    "b2_c320_h9_w9/fused=mul_add",
    "b1_c64_h16_w16/fused=mul",
    "b2_c8_h64_w64/fused=mul_add,groups=2",
    "b1_c6_h131_w129/fused=mul,groups=2",
    "b3_c12_h1_w2/groups=4,values=special",
    "b1_c32_h16_w16/eps=0.1,groups=4",
    *(f"b1_c32_h8_w8/lanes={lanes}" for lanes in row_values.POSSIBLE),
)
_TIMED_ROWS = (
    "b1_c1_h16384_w8192",
    "b1_c1_h4096_w4096",
    "b1_c1_h512_w4096/fused=mul",
    "b1_c32_h512_w128/fused=mul",
    "b1_c1_h1_w4096/fused=mul",
)
_TIMED_GROUPS = (
    "b1_c320_h64_w64",
    "b8_c320_h64_w64/fused=mul_add",
    "b1_c512_h256_w256/fused=mul_add",
)


def _cases(norm: Norm, fmt: str) -> Iterator[Case]:
    groups = _GROUPS[: None if fmt != "bf16" else -len(row_values.POSSIBLE)]  # no teams by name
    return (parse(f"{norm.name}/{fmt}/{s}") for s in (groups if norm.grouped else _ROWS[fmt]))


def _timed_cases(norm: Norm, fmt: str) -> Iterator[Case]:
    shapes = _TIMED_GROUPS if norm.grouped else _TIMED_ROWS
    few = 1 if fmt == "bf16" else None
    return (parse(f"{norm.name}/{fmt}/{shape}") for shape in shapes[:few])


def kernel(norm: Norm) -> Kernel:
    source = "added" if norm.added else "alone"

    def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
        return types["x"], source

    return Kernel(
        name=norm.name,
        description=norm.description,
        group="norm",
        dims=DIMS,
        bindings=bindings(norm),
        params=params(norm),
        tuning=row_values.tuning(partial(cut_of, norm)),
        forms=Forms(layout=None if norm.grouped else layout, whole=norm.grouped, infer=infer),
        # which of them are channels
        variants=(
            portable(
                "norm",
                lambda problem, device: launch(norm, problem, device),
                "f32",
                arguments=arguments,
                refuses=lambda problem, device: refuses(norm, problem, device),
                more=(
                    *row_values.stages(arguments, "norm", "moments", "finish"),
                    Stage(entry="gather", arguments=lambda types: (source,)),
                ),
                own=Memory(scratch=lambda problem, device: scratch(norm, problem, device)),
            ),
        ),
        inputs=inputs,
        check=Check(
            reference=lambda problem, inputs, rows: reference(norm, problem, inputs, rows),
            rows="" if norm.grouped else "h",
        ),
        work=Work(flops=lambda problem: 5 * prod(problem.array_shape("x"))),
        cases=CaseList(lambda: (case for fmt in TYPES for case in _cases(norm, fmt))),
        timed=CaseList(lambda: (case for fmt in TYPES for case in _timed_cases(norm, fmt))),
    )


_NORMS = (
    Norm(
        name="rms_norm",
        description="Rows over their root mean square: y = x / sqrt(mean(x^2) + eps).",
    ),
    Norm(
        name="layer_norm",
        description="Rows of mean 0 and variance 1: y = (x - mean) / sqrt(variance + eps).",
        centred=True,
    ),
    Norm(
        name="group_norm",
        description="Groups of channels of mean 0 and variance 1, as layer_norm has rows.",
        centred=True,
        grouped=True,
    ),
    Norm(
        name="l2_norm",
        description="Rows of length 1: y = x / max(sqrt(sum(x^2)), eps).",
        eps=1e-12,
        l2=True,
    ),
    Norm(
        name="add_rms_norm",
        description="Adds a residual to rows, keeps the sum and makes rms_norm of it.",
        added=True,
    ),
)

NORM = (*map(kernel, _NORMS), RMS_NORM_BACK)
