"""Comparisons of two numbers, element by element: 1 where they stand as asked, else 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
    Layout,
    Problem,
    Stage,
    Work,
)
from vkbench_shaders.kernels.elementwise import broadcast, strided
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

_LESS, _EQUAL, _GREATER, _UNORDERED = 1, 2, 4, 8  # as in compare.slang


@dataclass(frozen=True, kw_only=True)
class CompareOperation:
    """A row of the family's table."""

    name: str
    sign: str
    function: Callable[[Array, Array], Array]
    wanted: int  # relations for which it is true


COMPARISONS = (
    CompareOperation(name="eq", sign="=", function=np.equal, wanted=_EQUAL),
    CompareOperation(
        name="ne", sign="≠", function=np.not_equal, wanted=_LESS | _GREATER | _UNORDERED
    ),
    CompareOperation(name="lt", sign="<", function=np.less, wanted=_LESS),
    CompareOperation(name="le", sign="≤", function=np.less_equal, wanted=_LESS | _EQUAL),
    CompareOperation(name="gt", sign=">", function=np.greater, wanted=_GREATER),
    CompareOperation(name="ge", sign="≥", function=np.greater_equal, wanted=_GREATER | _EQUAL),
)
_WANTED = {comparison.name: comparison.wanted for comparison in COMPARISONS}

FORMATS = ("f32", "f16", "bf16", "f64", "u8", "u32", "i8", "i16", "i32", "i64")
_KINDS = {
    "u32": 2,
    "i8": 1,
    "i16": 1,
    "i32": 1,
    "i64": 1,
}  # floating: 0, as are the bytes, for they are decoded
# formats whose words are loaded as they are, those of 64 bits by a stage of their own
_LOADED = {
    **dict.fromkeys(("u32", "i32", "i64", "f64"), "f32"),
    "i8": "Signed<1>",
    "i16": "Signed<2>",
}


def layout(problem: Problem, binding: str) -> Layout:
    return broadcast.layout(problem, binding, {"b": "broadcast"})


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    launched = strided.launch(problem)
    holds_for, kind = _WANTED[problem.kernel.name], _KINDS.get(problem.types["a"], 0)
    constants = {**launched.constants, "WANTED": holds_for, "KIND": kind}
    return replace(launched, constants=constants, entry=_entry(problem))


def _entry(problem: Problem) -> str:
    """Numbers of 64 bits have code of their own, and again where nothing has gaps or repeats."""
    if not problem.types["a"].endswith("64"):
        return ""
    whole = Layout.contiguous(problem.full_shape("y"))
    is_flat = all(problem.layout(name) == whole for name in "aby")
    return "compare_flat_64" if is_flat else "compare_64"


def inputs(problem: Problem) -> dict[str, Array]:
    """Every fourth number of b is a's, if it has as many."""
    pair = broadcast.pair(problem)
    if pair["a"].shape == pair["b"].shape and problem.params["values"] == "noise":
        pair["b"].reshape(-1)[::4] = pair["a"].reshape(-1)[::4]
    return pair


def reference(
    comparison: CompareOperation,
) -> Callable[[Problem, Arrays, Array | None], dict[str, Array]]:
    """Integers as they are, others in float64."""

    def compare_numbers(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        fmt = problem.types["a"]
        a, b = (
            inputs[name] if fmt[0] in "iu" else quants.dequantise(fmt, inputs[name])
            for name in "ab"
        )
        return {"y": comparison.function(a, b).astype(np.uint8)}

    return compare_numbers


def _cases(name: str, fmt: str) -> Iterator[Case]:
    def case(shape: str, **params: Value) -> Case:
        return Case(
            kernel=name, format=fmt, shape=parse(f"{name}/{fmt}/{shape}").shape, params=params
        )

    yield case("b1_c1_h1_w1")
    yield case("b3_c1_h17_w129")
    yield case("b2_c5_h32_w64", broadcast="row")
    yield case("b2_c3_h5_w7", broadcast="row")
    yield case("b2_c3_h5_w7", broadcast="scalar")
    yield case("b3_c5_h7_w33", broadcast="channel", layout="permuted")
    yield case("b2_c5_h31_w61", broadcast="batch", layout="strided")
    yield case("b3_c5_h7_w9", values="special")
    yield case("b3_c5_h7_w9", values="special", layout="permuted")
    yield case("b2_c0_h5_w7")


def _timed_cases(name: str) -> Iterator[Case]:
    yield parse(f"{name}/f32/b1_c1_h4096_w4096")
    if name != "eq":  # they take as long as each other
        return
    yield from (parse(f"eq/{fmt}/b1_c1_h4096_w4096") for fmt in ("f16", "i64"))
    yield parse(f"{name}/f32/b1_c1_h4096_w4096/broadcast=row")
    yield parse(f"{name}/f32/b4_c16_h256_w256/layout=permuted")


def kernel(comparison: CompareOperation) -> Kernel:
    """The kernel of a comparison."""
    name = comparison.name
    return Kernel(
        name=name,
        description=f"Compares two arrays: y = 1 where a {comparison.sign} b, else 0.",
        group="compare",
        dims=strided.DIMS,
        bindings=(
            declare_input("a", FORMATS, strided.DIMS, "numbers"),
            declare_input(
                "b", FORMATS, strided.DIMS, "other ones, size 1 where repeated", same_as="a"
            ),
            declare_output("y", ("u8",), strided.DIMS, "0 or 1"),
        ),
        params={
            "broadcast": broadcast.param("b"),
            "layout": strided.LAYOUT,
            "values": data.VALUES,
        },
        forms=Forms(empty=strided.DIMS, layout=layout, infer=broadcast.infer),
        variants=(
            portable(
                "compare",
                launch,
                "exact",
                arguments=lambda types: (_LOADED.get(types["a"], types["a"]),),
                more=(Stage(entry="compare_64"), Stage(entry="compare_flat_64")),
            ),
        ),
        inputs=inputs,
        check=Check(reference=reference(comparison)),
        work=Work(flops=lambda problem: prod(problem.full_shape("y"))),
        cases=CaseList(lambda: (case for fmt in FORMATS for case in _cases(name, fmt))),
        timed=CaseList(lambda: _timed_cases(name)),
    )


COMPARE = tuple(kernel(comparison) for comparison in COMPARISONS)
