"""Gated linear units: y = f(a) * b, of two arrays or of the halves of each row of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from vkbench.case import Case, Value
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
    Shapes,
    Variant,
    Work,
)
from vkbench_shaders.kernels.elementwise import doubles, strided
from vkbench_shaders.kernels.shared.gates import GATES, PRODUCTS, Gate, values
from vkbench_shaders.quantisers import quants

_NARROW = ("f32", "f16", "bf16")
FORMATS = (*_NARROW, "f64")
Operands = Callable[[Problem], tuple[Layout, Layout]]
_SPAN = 150.0  # inputs lie between this and its negative

_SHAPES = ((1, 1, 1, 1), (2, 2, 2, 64), (13, 11, 7, 5), (1, 1, 31, 1999), (2, 3, 0, 7))
_LAID = ((2, 5, 31, 61), (3, 2, 8, 24))
_TIMED = ((1, 1, 512, 17408), (1, 1, 2048, 17408))


GATE = Param(
    default="first",
    choices=("first", "second"),
    description="which half of a row of x is the gate a; the other one is b",
)


def layout_of_halves(problem: Problem, binding: str) -> Layout:
    """Where an array lies; x has rows of two halves."""
    *outer, columns = problem.full_shape(binding)
    return strided.lay_out_array(problem, binding, (*outer, columns * (2 if binding == "x" else 1)))


def halves(problem: Problem) -> tuple[Layout, Layout]:
    """Where the gates lie in x, and what passes them."""
    x, y, columns = problem.layout("x"), problem.layout("y"), problem.shape["w"]
    first = replace(x, shape=y.shape)
    second = replace(first, offset=x.offset + columns * x.strides[-1])
    return (first, second) if problem.params["gate"] == "first" else (second, first)


def two(problem: Problem) -> tuple[Layout, Layout]:
    return problem.layout("a"), problem.layout("b")


def launch(gate: Gate, operands: Operands, problem: Problem, device: DeviceFacts) -> Launch:
    """A launch over y, whose operands lie as a function says."""
    layouts = [*operands(problem), problem.layout("y")]
    numbers = values(gate, problem)
    if problem.types["y"] == "f64":
        return doubles.over(dict(zip("aby", layouts, strict=True)), numbers)
    return strided.over(layouts, problem.item_bytes("y"), numbers)


def _variants(gate: Gate, entry: str, operands: Operands) -> tuple[Variant, ...]:
    launch_over = partial(launch, gate, operands)
    return (
        Variant(
            name="portable",
            module="glu",
            entry=entry,
            launch=launch_over,
            arithmetic="f32_each",
            arguments=lambda types: (gate.struct(types["y"]), types["y"], types["y"]),
            accepts=lambda types: not doubles.is_wide(types),
        ),
        doubles.variant_of_pairs(gate.struct("f64"), entry, launch_over),
    )


def inputs(problem: Problem) -> dict[str, Array]:
    names = [bound.name for bound in problem.kernel.bindings[:-1]]
    if problem.params["values"] == "special":
        return {name: data.values(problem, name) for name in names}
    return {name: data.uniform(problem, name, -_SPAN, _SPAN) for name in names}


def reference(gate: Gate, problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    a, b = operands(problem, inputs, rows)
    with np.errstate(all="ignore"):
        return {"y": gate.function(a, b, *values(gate, problem))}


def operands(problem: Problem, inputs: Arrays, rows: Array | None) -> list[Array]:
    """The gates and what passes them, along h only those of the sample."""
    taken = [array if rows is None else array[:, :, rows] for array in inputs.values()]
    numbers = [quants.dequantise(problem.case.format, array) for array in taken]
    if len(numbers) == 1:
        numbers = np.split(numbers[0], 2, axis=-1)
        return numbers if problem.params["gate"] == "first" else numbers[::-1]
    return numbers


def infer_halves(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    shape = shapes["x"]
    if len(shape) != 4 or shape[-1] % 2:
        raise UsageError(f"x has dimensions b, c, h and an even number of columns, got {shape}")
    return dict(zip(strided.DIMS, (*shape[:-1], shape[-1] // 2), strict=True))


def _cases(name: str, others: tuple[Mapping[str, Value], ...]) -> Iterator[Case]:
    yield strided.case(name, "f64", (2, 5, 31, 61), {"layout": "strided"})
    yield strided.case(name, "f64", (3, 5, 7, 9), {"values": "special", "layout": "permuted"})
    yield from (strided.case(name, "f64", (2, 3, 5, 41), params) for params in others)
    for fmt in _NARROW:
        yield from (strided.case(name, fmt, shape) for shape in _SHAPES)
        for how in ("strided", "permuted"):
            yield from (strided.case(name, fmt, shape, {"layout": how}) for shape in _LAID)
        yield strided.case(name, fmt, (3, 5, 7, 9), {"values": "special"})
        yield from (strided.case(name, fmt, (2, 3, 5, 41), params) for params in others)


def _timed_cases(gate: Gate, name: str) -> Iterator[Case]:
    shapes = _TIMED if gate.name == "swiglu" else _TIMED[:1]  # the others in one size
    return (strided.case(name, fmt, shape) for fmt in _NARROW[:2] for shape in shapes)


def _kernel(gate: Gate, name: str) -> Kernel:
    """A gate over two arrays: all that its other form changes is said there."""
    return Kernel(
        name=name,
        description=f"{gate.description}; a and b are two arrays.",
        group="glu",
        dims=strided.DIMS,
        bindings=(
            declare_input("a", FORMATS, strided.DIMS, "the gate"),
            declare_input("b", FORMATS, strided.DIMS, "what passes it", same_as="a"),
            declare_output("y", FORMATS, strided.DIMS, "what has passed", same_as="a"),
        ),
        params={**gate.params, "layout": strided.LAYOUT, "values": data.VALUES},
        forms=Forms(empty=strided.DIMS, layout=strided.layout),
        variants=_variants(gate, "of_two", two),
        inputs=inputs,
        check=Check(reference=partial(reference, gate), rows="h"),
        work=Work(flops=lambda problem: 2 * prod(problem.full_shape("y"))),
        cases=CaseList(lambda: _cases(name, gate.others)),
        timed=CaseList(lambda: _timed_cases(gate, name)),
    )


def _kernel_of_halves(gate: Gate) -> Kernel:
    split = _kernel(gate, "")
    return replace(
        split,
        name=gate.name,
        description=f"{gate.description}; a and b are the halves of each row of x.",
        bindings=(
            declare_input(
                "x", FORMATS, strided.DIMS, "rows of two halves: the gate and what passes it"
            ),
            declare_output("y", FORMATS, strided.DIMS, "what has passed", same_as="x"),
        ),
        params={"gate": GATE, **split.params},
        forms=replace(split.forms, layout=layout_of_halves, infer=infer_halves),
        variants=_variants(gate, "of_halves", halves),
        cases=tuple(_cases(gate.name, (*gate.others, {"gate": "second"}))),
        timed=tuple(_timed_cases(gate, gate.name)),
    )


GLU = (
    *(
        kernel
        for gate in GATES
        for kernel in (_kernel_of_halves(gate), _kernel(gate, f"{gate.name}_split"))
    ),
    *(_kernel(gate, gate.name) for gate in PRODUCTS),
)
