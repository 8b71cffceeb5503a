"""count_equal: how many numbers of two arrays are equal, as for the accuracy of a classifier."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data, noise
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
    Problem,
    Stage,
    Work,
    grid,
)
from vkbench_shaders.kernels.shared.portable import portable

THREADS = 256
_LEAST_STRETCH = 8 * THREADS  # fours of numbers that are worth a workgroup
_MOST_GROUPS = 1024


def layout(problem: Problem, binding: str) -> Layout:
    return Layout.contiguous((1,) if binding == "y" else (problem.shape["n"],))


def _stretch(problem: Problem) -> tuple[int, int]:
    """Fours of numbers a workgroup, and workgroups."""
    fours = problem.shape["n"] // 4
    stretch = max(_LEAST_STRETCH, -(-fours // (_MOST_GROUPS * THREADS)) * THREADS)
    return stretch, max(1, -(-fours // stretch))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    stretch, count = _stretch(problem)
    groups = grid(count)
    push = {
        "count": problem.shape["n"],
        "stretch": stretch,
        "groups": count,
        "groups_x": groups[0],
        "words": problem.item_bytes("y") // 4,
    }
    first = Launch(groups=groups, push=push, constants={"THREADS": THREADS})
    return (
        (first,) if count == 1 else (first, replace(first, groups=(1, 1, 1), entry="count_parts"))
    )


def inputs(problem: Problem) -> dict[str, Array]:
    """About half of the numbers are equal."""
    a = data.plain_values(problem, "a")
    differs = noise.raw(problem.seed("differs"), prod(a.shape)) & 1
    return {"a": a, "b": np.where(differs == 1, data.plain_values(problem, "b"), a)}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    count = np.count_nonzero(inputs["a"] == inputs["b"])
    return {"y": np.array([count], problem.format("y").dtype)}


def _numbers(name: str, description: str) -> Binding:
    return declare_input(name, ("i32",), ("n",), description)


COUNT_EQUAL = Kernel(
    name="count_equal",
    group="reduce",
    description="How many numbers of two arrays are equal to the one at the same place.",
    dims=("n",),
    forms=Forms(empty=("n",), layout=layout),
    bindings=(
        _numbers("a", "some numbers"),
        _numbers("b", "as many others"),
        declare_output("y", ("i64", "i32"), ("n",), "the count, one number"),
    ),
    variants=(
        portable(
            "count_equal",
            launch,
            "exact",
            more=(Stage(entry="count_parts"),),
            own=Memory(scratch=lambda problem, device: (4 * _stretch(problem)[1],)),
        ),
    ),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=lambda problem: problem.shape["n"]),
    cases=CaseList(
        lambda: (
            *(parse(f"count_equal/i32/n{n}") for n in (0, 1, 3, 4, 7, 2000, 8191, 8193, 20000)),
            *(parse(f"count_equal/i32:y=i32/n{n}") for n in (5, 100003)),
        )
    ),
    timed=CaseList(lambda: (parse("count_equal/i32/n16777216"),)),
)
