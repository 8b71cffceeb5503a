"""Functions of one number, element by element: y = f(x)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, Value
from vkbench_shaders import data, quants
from vkbench_shaders.kernel import Array, Arrays, Binding, Kernel, Param, Problem, Variant
from vkbench_shaders.kernels import strided

Values = NDArray[np.float64]
Function = Callable[..., Values]

FORMATS = ("f32", "f16", "bf16")
_SHAPES = ((1, 1, 1, 1), (2, 2, 2, 128), (13, 11, 7, 5))


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A row of the family's table."""

    name: str
    description: str
    function: Function  # of float64 values and the parameters in order
    path: str = "f32_each"
    spread: float = 150.0  # inputs lie between this and its negative
    params: Mapping[str, Param] = field(default_factory=dict)


OPERATIONS = (
    Operation(name="abs", description="y = |x|.", function=np.abs, path="exact"),
    Operation(name="neg", description="y = -x.", function=np.negative, path="exact"),
)


def kernel(operation: Operation) -> Kernel:
    """The kernel of an operation."""
    name = operation.name

    def inputs(problem: Problem) -> dict[str, Array]:
        if problem.params["values"] == "special":
            return {"x": data.values(problem, "x")}
        return {"x": data.uniform(problem, "x", -operation.spread, operation.spread)}

    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        x = quants.dequantise(problem.types["x"], inputs["x"])
        with np.errstate(all="ignore"):
            return {"y": operation.function(x)}

    return Kernel(
        name=name,
        description=operation.description,
        group="unary",
        dims=strided.DIMS,
        bindings=(
            Binding(name="x", access="in", types=FORMATS, dims=strided.DIMS, description="numbers"),
            Binding(
                name="y",
                access="out",
                types=FORMATS,
                dims=strided.DIMS,
                same_as="x",
                description="their images",
            ),
        ),
        params={"layout": strided.LAYOUT, "values": data.VALUES, **operation.params},
        empty=strided.DIMS,
        layout=strided.layout,
        variants=(
            Variant(
                name="portable",
                module="unary",
                entry="unary",
                arguments=lambda types: (_struct(name), types["x"], types["y"]),
                launch=lambda problem, device: strided.launch(problem),
                path=operation.path,
            ),
        ),
        inputs=inputs,
        reference=reference,
        flops=lambda problem: prod(problem.full_shape("y")),
        cases=tuple(_cases(name)),
        timed=(),
    )


def _struct(name: str) -> str:
    """The Slang struct of an operation: LeakyRelu of leaky_relu."""
    return name.title().replace("_", "")


def _cases(name: str) -> Iterator[Case]:
    def case(fmt: str, shape: tuple[int, ...], params: Mapping[str, Value]) -> Case:
        sizes = dict(zip(strided.DIMS, shape, strict=True))
        return Case(kernel=name, format=fmt, shape=sizes, params=params)

    for fmt in FORMATS:
        yield from (case(fmt, shape, {}) for shape in (*_SHAPES, (3, 5, 64, 129), (0, 3, 5, 7)))
        for how in strided.LAYOUT.choices:
            yield case(fmt, (3, 5, 7, 9), {"values": "special", "layout": str(how)})
            yield case(fmt, (2, 5, 31, 61), {"layout": str(how)})
            yield case(fmt, (2, 3, 8, 16), {"layout": str(how)})
            yield case(fmt, (1, 1, 1, 7), {"layout": str(how)})


UNARY = tuple(kernel(operation) for operation in OPERATIONS)
