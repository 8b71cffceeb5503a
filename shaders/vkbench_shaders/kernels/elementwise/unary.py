"""Functions of one number, element by element: y = f(x), and the gradient of silu.

What an operation does is one function of float64 arrays. Where a formula has no value at -Inf
(-Inf * 0), the limit counts: silu, the gelus and hardswish are 0 there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from vkbench.case import Case, Value
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
    Problem,
    Variant,
    Work,
)
from vkbench_shaders.kernels.elementwise import doubles, strided
from vkbench_shaders.kernels.elementwise.unary_operations import OPERATIONS, UnaryOperation
from vkbench_shaders.kernels.shared.activations import silu_slope
from vkbench_shaders.quantisers import quants

FORMATS = ("f32", "f16", "bf16")
ALL_FORMATS = (*FORMATS, "f64")

_SHAPES = ((1, 1, 1, 1), (2, 2, 2, 128), (13, 11, 7, 5), (1, 1, 31, 1999), (0, 3, 5, 7))
_LAID = ((2, 5, 31, 61), (3, 2, 8, 24), (3, 4, 5, 1))
_LARGEST = 1e50  # of f64 whose errors, or those of their cubes, are squared
_LARGE = (1, 1, 4096, 4096)
_MOVED = (4, 16, 512, 512)


def launch(operation: UnaryOperation, problem: Problem, device: DeviceFacts) -> Launch:
    values = operation.numbers(problem.params)
    plain = strided.launch(problem, operation.pushed(*values))
    return replace(plain, constants={**plain.constants, **operation.constants(*values)})


def inputs(operation: UnaryOperation, problem: Problem) -> dict[str, Array]:
    if problem.params["values"] == "special":
        x = data.values(problem, "x")
        if problem.types["x"] == "f64" and operation.name in doubles.ROUNDED_OFTEN:
            x[np.isfinite(x) & (np.abs(x) > _LARGEST)] = _LARGEST
        return {"x": x}
    low, high = operation.range(problem.types["x"])
    return {"x": data.uniform(problem, "x", low, high)}


def reference(
    operation: UnaryOperation, problem: Problem, inputs: Arrays, rows: Array | None
) -> dict[str, Array]:
    x = read_sample(problem, "x", inputs, rows)
    with np.errstate(all="ignore"):
        single = np.float64 if problem.types["x"] == "f64" else np.float32
        values = [np.float64(single(number)) for number in operation.numbers(problem.params)]
        return {"y": operation.function(x, *values)}


def read_sample(problem: Problem, binding: str, inputs: Arrays, rows: Array | None) -> Array:
    """An input's numbers, along h only those of the sample."""
    stored = inputs[binding]
    return quants.dequantise(problem.types[binding], stored if rows is None else stored[:, :, rows])


def kernel(operation: UnaryOperation) -> Kernel:
    """The kernel of an operation."""
    name, of_f64 = operation.name, operation.name in doubles.ALL
    formats = ALL_FORMATS if of_f64 else FORMATS
    return Kernel(
        name=name,
        description=operation.description,
        group="unary",
        dims=strided.DIMS,
        bindings=(
            declare_input("x", formats, strided.DIMS, "numbers"),
            declare_output("y", formats, strided.DIMS, "what becomes of them", same_as="x"),
        ),
        params={**operation.params, "layout": strided.LAYOUT, "values": data.VALUES},
        forms=Forms(empty=strided.DIMS, layout=strided.layout),
        variants=(
            Variant(
                name="portable",
                module="unary",
                launch=partial(launch, operation),
                arithmetic=operation.path,
                arguments=lambda types: (operation.struct(types["y"]), types["x"], types["y"]),
                accepts=lambda types: types["x"] != "f64",
            ),
            *((_variant_of_f64(operation),) if of_f64 else ()),
        ),
        inputs=partial(inputs, operation),
        check=Check(reference=partial(reference, operation), rows="h"),
        work=Work(flops=lambda problem: prod(problem.full_shape("y"))),
        cases=CaseList(lambda: (case for fmt in formats for case in _cases(operation, fmt))),
        timed=CaseList(lambda: _timed_cases(name)),
    )


def _variant_of_f64(operation: UnaryOperation) -> Variant:
    def parameters(params: Mapping[str, Value]) -> Sequence[float]:
        return operation.pushed(*operation.numbers(params))

    return doubles.variant(operation.struct("f64"), parameters, operation.name)


def _cases(operation: UnaryOperation, fmt: str) -> Iterator[Case]:
    name = operation.name
    if fmt == "f64":
        yield strided.case(name, fmt, (2, 5, 31, 61), {"layout": "strided"})
        yield strided.case(name, fmt, (3, 5, 7, 9), {"values": "special", "layout": "permuted"})
        yield from (
            strided.case(name, fmt, (2, 3, 5, 41), changed) for changed in operation.others[:1]
        )
        return
    yield from (strided.case(name, fmt, shape) for shape in _SHAPES)
    for how in ("strided", "permuted"):
        yield from (strided.case(name, fmt, shape, {"layout": how}) for shape in _LAID)
    yield strided.case(name, fmt, (3, 5, 7, 9), {"values": "special"})
    yield strided.case(name, fmt, (2, 3, 7, 11), {"layout": "strided", "values": "special"})
    for params in operation.others:
        yield strided.case(name, fmt, (2, 3, 5, 41), params)
        yield strided.case(name, fmt, (3, 5, 7, 9), {**params, "values": "special"})


_ALSO_MOVED = ("relu", "silu")  # how arrays lie costs all operations the same


def _timed_cases(name: str) -> Iterator[Case]:
    yield from (strided.case(name, fmt, _LARGE) for fmt in ("f32", "f16"))
    if name in _ALSO_MOVED:
        yield strided.case(name, "f32", _MOVED, {"layout": "strided"})
        yield strided.case(name, "f32", _MOVED, {"layout": "permuted"})


def _silu_back_inputs(problem: Problem) -> dict[str, Array]:
    if problem.params["values"] == "special":
        return {name: data.values(problem, name) for name in ("dy", "x")}
    spans = {"dy": 2.0, "x": 20.0}
    return {name: data.uniform(problem, name, -span, span) for name, span in spans.items()}


def _silu_back(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    dy, x = (read_sample(problem, name, inputs, rows) for name in ("dy", "x"))
    with np.errstate(all="ignore"):
        return {"dx": dy * silu_slope(x)}


def _silu_back_launch(problem: Problem, device: DeviceFacts) -> Launch:
    layouts = {"a": problem.layout("dy"), "b": problem.layout("x"), "y": problem.layout("dx")}
    return doubles.over(layouts, ())


def _silu_back_arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    slope = "SlopeOfHalves" if types["dx"] == "f16" else "Slope"
    return slope, types["x"], types["dx"]


_SILU_BACK = UnaryOperation(name="silu_back", description="", function=silu_slope)

SILU_BACK = Kernel(
    name="silu_back",
    description="Gradient of silu: dx = dy * s * (1 + x * (1 - s)) with s = sigmoid(x).",
    group="unary",
    dims=strided.DIMS,
    bindings=(
        declare_input("dy", ALL_FORMATS, strided.DIMS, "gradient of silu's result"),
        declare_input("x", ALL_FORMATS, strided.DIMS, "what silu was of", same_as="dy"),
        declare_output("dx", ALL_FORMATS, strided.DIMS, "gradient of x", same_as="dy"),
    ),
    params={"layout": strided.LAYOUT, "values": data.VALUES},
    forms=Forms(empty=strided.DIMS, layout=strided.layout),
    variants=(
        Variant(
            name="portable",
            module="silu_back",
            launch=lambda problem, device: strided.launch(problem),
            arithmetic="f32",
            arguments=_silu_back_arguments,
            accepts=lambda types: not doubles.is_wide(types),
        ),
        doubles.variant_of_pairs("SiluBack", "of_two", _silu_back_launch),
    ),
    inputs=_silu_back_inputs,
    check=Check(reference=_silu_back, rows="h"),
    work=Work(flops=lambda problem: 8 * prod(problem.full_shape("dx"))),
    cases=CaseList(lambda: (case for fmt in ALL_FORMATS for case in _cases(_SILU_BACK, fmt))),
    timed=CaseList(lambda: _timed_cases("silu_back")),
)

UNARY = (*(kernel(operation) for operation in OPERATIONS), SILU_BACK)
