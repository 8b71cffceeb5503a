"""Choice between two arrays, element by element, however they lie."""

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
    Layout,
    Problem,
    Push,
    Stage,
    Work,
    grid,
)
from vkbench_shaders.kernels.elementwise import broadcast, strided
from vkbench_shaders.kernels.shared import places
from vkbench_shaders.kernels.shared.portable import portable

_WIDE = ("i64", "f64")  # of 64 bits, for which other code is
FORMATS = ("f32", "f16", "bf16", "u8", "u32", "i32", *_WIDE)
_STEPS = 4  # numbers a thread, as in select_64.slang
_REPEATED = {"b": "broadcast", "condition": "condition"}
_MOVED = {  # bits as they are; for those of 64 bits the launch names another entry point
    **dict.fromkeys(("u32", "i32", *_WIDE), "f32"),
    **dict.fromkeys(("f16", "bf16"), "shorts"),
}


def layout(problem: Problem, binding: str) -> Layout:
    return broadcast.layout(problem, binding, _REPEATED)


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    if problem.types["a"] not in _WIDE:
        return strided.launch(problem)
    shape = problem.full_shape("y")
    groups = grid(-(-prod(shape) // (strided.THREADS * _STEPS)))
    push: Push = {
        "sizes": places.sizes(shape),
        **{b.name: broadcast.place(problem.layout(b.name)) for b in problem.kernel.bindings},
        "groups_x": groups[0],
    }
    constants = {"THREADS": strided.THREADS}
    return Launch(groups=groups, push=push, constants=constants, entry="where_cond_64")


def inputs(problem: Problem) -> dict[str, Array]:
    """Half of the conditions are 0."""
    condition = data.values(problem, "condition")
    return {**broadcast.pair(problem), "condition": condition * (condition % 2)}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    return {"y": np.where(inputs["condition"] != 0, inputs["a"], inputs["b"])}


def arguments(types: Mapping[str, str]) -> tuple[str, str]:
    moved = _MOVED.get(types["a"], types["a"])
    return moved, moved


def _cases(fmt: str) -> Iterator[Case]:
    def case(shape: str, **params: Value) -> Case:
        sizes = parse(f"where_cond/{fmt}/{shape}").shape
        return Case(kernel="where_cond", format=fmt, shape=sizes, params=params)

    if fmt in _WIDE:
        yield case("b2_c5_h31_w61", condition="channel", layout="strided")
        yield case("b3_c5_h7_w9", values="special", broadcast="row", layout="permuted")
        yield case("b2_c5_h32_w64", condition="row")
        return
    yield case("b1_c1_h1_w1")
    yield case("b3_c1_h17_w129")
    yield case("b2_c5_h32_w64", broadcast="scalar")
    yield case("b2_c5_h32_w64", condition="row")
    yield case("b2_c3_h5_w7", broadcast="row", condition="batch")
    yield case("b2_c3_h5_w7", broadcast="batch", condition="scalar")
    yield case("b3_c5_h7_w33", broadcast="channel", layout="permuted")
    yield case("b2_c5_h31_w61", condition="channel", layout="strided")
    yield case("b2_c5_h31_w61", layout="permuted")
    yield case("b3_c5_h7_w9", values="special")
    yield case("b3_c5_h7_w9", values="special", layout="strided")
    yield case("b2_c0_h5_w7")


_TIMED = (
    "f32/b1_c1_h4096_w4096",
    "f16/b1_c1_h4096_w4096",
    "f32/b1_c1_h4096_w4096/broadcast=scalar",
    "f32/b4_c16_h256_w256/layout=permuted",
)

SELECT = (
    Kernel(
        name="where_cond",
        description="Chooses between two arrays: y = a where the condition is not 0, else b.",
        group="select",
        dims=strided.DIMS,
        bindings=(
            declare_input("a", FORMATS, strided.DIMS, "numbers"),
            declare_input(
                "b", FORMATS, strided.DIMS, "other ones, size 1 where repeated", same_as="a"
            ),
            declare_input("condition", ("u8",), strided.DIMS, "0 for b, size 1 where repeated"),
            declare_output("y", FORMATS, strided.DIMS, "what was chosen", same_as="a"),
        ),
        params={
            "broadcast": broadcast.param("b"),
            "condition": broadcast.param("the condition"),
            "layout": strided.LAYOUT,
            "values": data.VALUES,
        },
        forms=Forms(empty=strided.DIMS, layout=layout, infer=broadcast.infer),
        variants=(
            portable(
                "select",
                launch,
                "exact",
                entry="where_cond",
                arguments=arguments,
                more=(Stage(entry="where_cond_64", module="select_64"),),
            ),
        ),
        inputs=inputs,
        check=Check(reference=reference),
        work=Work(flops=lambda problem: 0),
        cases=CaseList(lambda: (case for fmt in FORMATS for case in _cases(fmt))),
        timed=CaseList(lambda: (parse(f"where_cond/{case}") for case in _TIMED)),
    ),
)
