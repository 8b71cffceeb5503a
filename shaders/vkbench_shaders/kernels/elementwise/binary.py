"""Arithmetic of two numbers, element by element: y = a op b, rounded once, however arrays lie.

Integers wrap around; quotients of them are cut to integers, and a / 0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, Value, parse
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Layout,
    Problem,
    Variant,
    Work,
)
from vkbench_shaders.kernels.elementwise import binary_numbers, broadcast, strided
from vkbench_shaders.quantisers import quants

Floats = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class BinaryOperation:
    """A row of the family's table; binary.slang has a struct of its name."""

    name: str
    description: str
    function: Callable[[Floats, Floats], Floats]


def least(a: Floats, b: Floats) -> Floats:
    """The smaller one; -0 is below +0, a NaN stays one."""
    is_minus = (a == b) & (np.signbit(a) | np.signbit(b))
    return np.where(is_minus, -np.abs(a), np.minimum(a, b))


def most(a: Floats, b: Floats) -> Floats:
    """The larger one; -0 is below +0, a NaN stays one."""
    is_plus = (a == b) & ~(np.signbit(a) & np.signbit(b))
    return np.where(is_plus, np.abs(a), np.maximum(a, b))


OPERATIONS = (
    BinaryOperation(name="add", description="Adds two arrays: y = a + b.", function=np.add),
    BinaryOperation(name="sub", description="Subtracts an array: y = a - b.", function=np.subtract),
    BinaryOperation(
        name="mul", description="Multiplies two arrays: y = a b.", function=np.multiply
    ),
    BinaryOperation(name="div", description="Divides by an array: y = a / b.", function=np.divide),
    BinaryOperation(
        name="minimum",
        description="The smaller one of two: y = min(a, b); NaN if one is, -0 below +0.",
        function=least,
    ),
    BinaryOperation(
        name="maximum",
        description="The larger one of two: y = max(a, b); NaN if one is, -0 below +0.",
        function=most,
    ),
)
_SINGLES = ("f32", "f16", "bf16")  # which are computed with in f32
FORMATS = (*_SINGLES, *binary_numbers.NUMBERS)
_SPAN = 4.0  # of ordinary numbers
_ARITHMETIC = ("add", "sub", "mul", "div")


def ordinary(problem: Problem) -> dict[str, Array]:
    """Zeros and denormals are among them only if asked for: they take shaders longer."""
    if problem.params["values"] == "special" or problem.types["a"] in binary_numbers.INTEGERS:
        return broadcast.pair(problem)
    return {name: data.uniform(problem, name, -_SPAN, _SPAN) for name in "ab"}


_PAIRS = (("f32", "f32"), ("f32", "f16"), ("f16", "f32"), ("f16", "f16"), ("bf16", "bf16"))
_ALIKE = tuple((fmt, fmt) for fmt in binary_numbers.NUMBERS)


def accepts(types: Mapping[str, str]) -> bool:
    """f32 and f16 in any mixture; others by themselves."""
    return (types["a"], types["b"]) in (*_PAIRS, *_ALIKE)


def _struct(name: str, types: Mapping[str, str]) -> str:
    """Name of the operation's struct in binary.slang; quotients of halves have their own."""
    halves = name == "div" and types["a"] == types["b"] == "f16"
    return "DivHalves" if halves else name.title()


def layout(problem: Problem, binding: str) -> Layout:
    return broadcast.layout(problem, binding, {"b": "broadcast"})


def reference(
    operation: BinaryOperation,
) -> Callable[[Problem, Arrays, Array | None], dict[str, Array]]:
    """Results in singles as IEEE 754 rounds them, then in y's format; compared bit for bit.

    Integers and f64 in their own format.
    """

    def compute_results(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        if problem.types["y"] in binary_numbers.NUMBERS:
            with np.errstate(all="ignore"):
                return {"y": of_numbers(inputs["a"], inputs["b"])}
        a, b = (
            quants.dequantise(problem.types[name], inputs[name]).astype(np.float32) for name in "ab"
        )
        with np.errstate(all="ignore"):
            return {"y": quants.quantise(problem.types["y"], operation.function(a, b))}

    def of_numbers(a: Array, b: Array) -> Array:
        if a.dtype == np.float64:
            return operation.function(a, b)
        return _OF_INTEGERS.get(operation.name, operation.function)(a, b)

    return compute_results


_OF_INTEGERS: dict[str, Callable[[Array, Array], Array]] = {
    "div": binary_numbers.quotient,
    "minimum": np.minimum,
    "maximum": np.maximum,
}

_SHAPES = (
    "b1_c1_h1_w1",
    "b1_c1_h1_w5",
    "b2_c3_h5_w7",
    "b1_c4_h32_w64",
    "b3_c1_h17_w129",
    "b2_c5_h31_w61",
)
_REPEATED = ("batch", "channel", "row", "scalar")
_MOVED = ("permuted", "strided")


def _first_cases() -> Iterator[Case]:
    """Cases of sums of singles: every shape in every layout, every repetition in each."""
    for shape in _SHAPES:
        yield parse(f"add/f32/{shape}")
        yield from (parse(f"add/f32/{shape}/layout={how}") for how in _MOVED)
    for repeated in _REPEATED:
        yield parse(f"add/f32/b2_c3_h5_w7/broadcast={repeated}")
        for how in _MOVED:
            yield parse(f"add/f32/b3_c5_h7_w33/broadcast={repeated},layout={how}")


def _cases(name: str, a: str, b: str) -> Iterator[Case]:
    """Some of each, and what is special."""

    def case(shape: str, **params: Value) -> Case:
        sizes = parse(f"{name}/{a}/{shape}").shape
        types = {"b": b} if b != "f32" else {}
        return Case(kernel=name, format=a, shape=sizes, types=types, params=params)

    if (name, a, b) == ("add", "f32", "f32"):
        yield from _first_cases()
    else:
        yield from (case(shape) for shape in ("b1_c1_h1_w1", "b1_c4_h32_w64", "b3_c1_h17_w129"))
        yield case("b2_c3_h5_w7", broadcast="batch")
        yield case("b2_c3_h5_w7", broadcast="scalar")
        yield case("b3_c5_h7_w33", broadcast="channel", layout="permuted")
        yield case("b3_c5_h7_w33", broadcast="row", layout="strided")
        yield from (case("b2_c5_h31_w61", layout=how) for how in _MOVED)
    yield case("b3_c5_h7_w9", values="special")
    yield case("b3_c5_h7_w9", values="special", layout="strided")
    yield case("b2_c0_h5_w7")


def _cases_of_numbers(name: str, fmt: str) -> Iterator[Case]:
    for rest in (
        "b1_c1_h1_w1",
        "b3_c1_h17_w129",
        "b3_c5_h7_w33/broadcast=row,layout=strided",
        "b2_c5_h31_w61/layout=permuted",
        "b3_c5_h7_w9/values=special",
        "b2_c0_h5_w7",
    ):
        yield parse(f"{name}/{fmt}:b={fmt}/{rest}")


def _timed_cases(name: str) -> Iterator[Case]:
    yield parse(f"{name}/f32/b1_c1_h4096_w4096")
    yield parse(f"{name}/f32/b1_c1_h4096_w4096/broadcast=row")
    yield parse(f"{name}/f32/b4_c16_h256_w256/layout=permuted")
    yield parse(f"{name}/f16:b=f16/b1_c1_h4096_w4096")
    if name == "add":
        yield parse("add/f32:b=f16/b1_c1_h4096_w4096")
        yield from (parse(f"add/{fmt}:b={fmt}/b1_c1_h4096_w4096") for fmt in ("i32", "u8", "f64"))
        yield parse("add/f32/b1_c1_h1_w4096")
        yield parse("add/f32/b1_c1_h512_w4096/broadcast=row")


def kernel(operation: BinaryOperation) -> Kernel:
    """The kernel of an operation."""
    name = operation.name
    return Kernel(
        name=name,
        description=operation.description,
        group="binary",
        dims=strided.DIMS,
        bindings=(
            declare_input("a", FORMATS, strided.DIMS, "numbers"),
            declare_input(
                "b",
                FORMATS,
                strided.DIMS,
                "other ones, size 1 where repeated; like a, or f16 and f32",
            ),
            declare_output(
                "y", FORMATS, strided.DIMS, "results, of narrow floats from f32", same_as="a"
            ),
        ),
        params={
            "broadcast": broadcast.param("b"),
            "layout": strided.LAYOUT,
            "values": data.VALUES,
        },
        forms=Forms(accepts=accepts, empty=strided.DIMS, layout=layout, infer=broadcast.infer),
        variants=(
            Variant(
                name="portable",
                module="binary",
                arguments=lambda types: (_struct(name, types), *(types[b] for b in "aby")),
                launch=lambda problem, device: strided.launch(problem),
                arithmetic="exact",
                accepts=lambda types: types["y"] in _SINGLES,
            ),
            *binary_numbers.variants(name),
        ),
        inputs=ordinary if name in _ARITHMETIC else broadcast.pair,
        check=Check(reference=reference(operation)),
        work=Work(flops=lambda problem: prod(problem.full_shape("y"))),
        cases=CaseList(
            lambda: (
                *(case for a, b in _PAIRS for case in _cases(name, a, b)),
                *(case for fmt in binary_numbers.NUMBERS for case in _cases_of_numbers(name, fmt)),
            )
        ),
        timed=CaseList(lambda: _timed_cases(name)),
    )


BINARY = tuple(kernel(operation) for operation in OPERATIONS)
