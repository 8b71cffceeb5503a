"""A factor and a summand for all elements: y = x * factor + summand, however arrays lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from vkbench.case import Case, Value, parse
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
    Param,
    Problem,
    Variant,
    Work,
)
from vkbench_shaders.kernels.elementwise import doubles, strided
from vkbench_shaders.quantisers import quants

_NARROW = ("f32", "f16", "bf16")
FORMATS = (*_NARROW, "f64")


def numbers(params: Mapping[str, Value]) -> list[float]:
    """Factor and summand: the parameters that only this kernel has."""
    return [float(value) for value in list(params.values())[:2]]


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    return strided.launch(problem, numbers(problem.params))


def inputs(problem: Problem) -> dict[str, Array]:
    """Numbers that have products: zeros and denormals among them only if asked for."""
    if problem.params["values"] == "special":
        return {"x": data.values(problem, "x")}
    return {"x": data.uniform(problem, "x", -4, 4)}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Product and sum in singles, or in f64, each rounded; results are compared bit for bit."""
    computed = np.float64 if problem.types["x"] == "f64" else np.float32
    x = quants.dequantise(problem.types["x"], inputs["x"]).astype(computed)
    with np.errstate(all="ignore"):
        factor, summand = np.array(numbers(problem.params), computed)
        return {"y": quants.quantise(problem.types["y"], x * factor + summand)}


def _cases(name: str, fmt: str, params: Mapping[str, Value]) -> Iterator[Case]:
    def case(shape: str, **more: Value) -> Case:
        sizes = parse(f"{name}/{fmt}/{shape}").shape
        return Case(kernel=name, format=fmt, shape=sizes, params={**params, **more})

    if fmt == "f64":
        yield case("b2_c5_h31_w61", layout="strided")
        yield case("b3_c5_h7_w9", values="special", layout="permuted")
        return
    yield case("b1_c1_h1_w1")
    yield case("b10_c10_h10_w10")
    yield case("b3_c1_h17_w129")
    yield case("b1_c4_h32_w64")
    for how in ({}, {"layout": "strided"}, {"layout": "permuted"}):
        yield case("b2_c5_h31_w61", **how)
        yield case("b3_c5_h7_w9", values="special", **how)
    yield Case(kernel=name, format=fmt, shape=parse(f"{name}/{fmt}/b2_c3_h5_w7").shape)
    yield case("b2_c0_h5_w7")


def _kernel(
    name: str, description: str, params: Mapping[str, Param], changed: Mapping[str, Value]
) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group="affine",
        dims=strided.DIMS,
        bindings=(
            declare_input("x", FORMATS, strided.DIMS, "numbers"),
            declare_output(
                "y",
                FORMATS,
                strided.DIMS,
                "their images, worked out in f32, or in f64",
                same_as="x",
            ),
        ),
        params={**params, "layout": strided.LAYOUT, "values": data.VALUES},
        forms=Forms(empty=strided.DIMS, layout=strided.layout),
        variants=(
            Variant(
                name="portable",
                module="affine",
                launch=launch,
                arithmetic="exact",
                arguments=lambda types: (types["x"], types["y"]),
                accepts=lambda types: types["x"] in _NARROW,
            ),
            doubles.variant("Line", numbers),
        ),
        inputs=inputs,
        check=Check(reference=reference),
        work=Work(flops=lambda problem: 2 * prod(problem.full_shape("y"))),
        cases=CaseList(lambda: (case for fmt in FORMATS for case in _cases(name, fmt, changed))),
        timed=CaseList(
            lambda: (
                Case(kernel=name, format="f32", shape=_LARGE, params=changed),
                Case(kernel=name, format="f16", shape=_LARGE, params=changed),
                Case(
                    kernel=name,
                    format="f32",
                    shape={"b": 4, "c": 16, "h": 256, "w": 256},
                    params={**changed, "layout": "permuted"},
                ),
            )
        ),
    )


_LARGE = {"b": 1, "c": 1, "h": 4096, "w": 4096}

AFFINE = (
    _kernel(
        "scale",
        "Scales an array and shifts it: y = factor x + bias, each step rounded.",
        {
            "factor": Param(default=1.0, description="what all are multiplied by"),
            "bias": Param(default=0.0, description="what is added to all"),
        },
        {"factor": 1.7},
    ),
    _kernel(
        "affine",
        "Maps an array by a line: y = mul x + add, each step rounded.",
        {
            "mul": Param(default=1.0, description="what all are multiplied by"),
            "add": Param(default=0.0, description="what is added to all"),
        },
        {"mul": -0.3, "add": 2.5},
    ),
)
