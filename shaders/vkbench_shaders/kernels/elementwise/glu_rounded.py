"""Gated linear units rounded to blocks of q8_1, as products of quantised weights read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Kernel, Launch, Layout, Problem, grid
from vkbench_shaders.kernels.elementwise import glu, strided
from vkbench_shaders.kernels.shared import gates
from vkbench_shaders.kernels.shared.gates import GATES, Gate
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor

_NAMES = ("swiglu", "geglu", "swiglu_oai")  # of the gates that models put before a product
_THREADS = 128  # a workgroup
_EACH = 4  # numbers a thread
_SPAN = 8.0  # inputs lie between this and its negative: larger ones leave one number of a block


def _layout(problem: Problem, binding: str) -> Layout:
    """Rows of x have two halves."""
    *outer, columns = problem.full_shape(binding)
    return Layout.contiguous((*outer, columns * (2 if binding == "x" else 1)))


def launch(gate: Gate, problem: Problem, device: DeviceFacts) -> Launch:
    b, c, h, w = (problem.shape[dim] for dim in strided.DIMS)
    fours = b * c * h * w // _EACH
    groups = grid(-(-fours // _THREADS))
    starts = (0, w // _EACH)
    is_first = problem.params["gate"] == "first"
    given, passed = starts if is_first else starts[::-1]
    params = gates.values(gate, problem)
    return Launch(
        groups=groups,
        push={
            "fours": fours,
            "groups_x": groups[0],
            "width": divisor(w // _EACH),
            "gate": given,
            "passed": passed,
            "params": (*params, *(0.0,) * (4 - len(params))),
        },
        constants={"THREADS": _THREADS},
    )


def inputs(problem: Problem) -> dict[str, Array]:
    return {"x": data.uniform(problem, "x", -_SPAN, _SPAN)}


def _arguments(gate: Gate, types: Mapping[str, str]) -> tuple[str, ...]:
    return (gate.struct("f32"),)


_SHAPES = (
    "b1_c1_h1_w32",
    "b1_c1_h1_w14336",
    "b2_c3_h5_w96",
    "b1_c1_h7_w4096",
    "b1_c1_h3_w64/gate=second",
)
_TIMED = ("b1_c1_h1_w14336", "b1_c1_h512_w14336")


def _parse_cases(name: str, shapes: tuple[str, ...]) -> tuple[Case, ...]:
    return tuple(parse(f"{name}/f32/{shape}") for shape in shapes)


def _kernel(gate: Gate, halves: Kernel) -> Kernel:
    name = f"{gate.name}_q8_1"
    return replace(
        halves,
        name=name,
        description=f"{gate.description}, rounded to q8_1; a and b are the halves of rows of x.",
        bindings=(
            declare_input(
                "x", ("f32",), strided.DIMS, "rows of two halves: the gate and what passes it"
            ),
            declare_output("y", ("q8_1",), strided.DIMS, "what has passed, rounded to bytes"),
        ),
        params={name: halves.params[name] for name in ("gate", *gate.params)},
        forms=replace(halves.forms, empty=(), layout=_layout),
        variants=(
            portable(
                "glu_rounded", partial(launch, gate), "f32", arguments=partial(_arguments, gate)
            ),
        ),
        inputs=inputs,
        cases=_parse_cases(name, _SHAPES),
        timed=_parse_cases(name, _TIMED),
    )


_HALVES = {kernel.name: kernel for kernel in glu.GLU}
GLU_ROUNDED = tuple(_kernel(gate, _HALVES[gate.name]) for gate in GATES if gate.name in _NAMES)
