"""What submissions cost, and what is gained by having several in flight.

Each launch of these kernels is a submission of its own when they are timed, by the host's clock.
Hot, several are in flight: the host hands over the next ones while the device works. Cold, the host
waits for the end of each before the next.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Flow,
    Kernel,
    Launch,
    Problem,
    Variant,
    Work,
    grid,
    too_large,
)

GROUP = "calibrate"
THREADS = 128
FACTOR, ADDEND = 1664525, 1013904223  # of a step, modulo 2^32
MOST_STEPS_OF_CPU = 1e9


def _stretches(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """One launch for each stretch: an outer index of x."""
    count, words = problem.layout("x").shape
    groups = grid(-(-words // THREADS))
    push = {"words": words, "rounds": problem.shape.get("r", 1), "groups_x": groups[0]}
    return tuple(
        Launch(groups=groups, push={"first": number * words, **push}) for number in range(count)
    )


def _refuses(problem: Problem, device: DeviceFacts) -> str | None:
    steps = problem.flops / 2
    if device.type == "cpu" and steps > MOST_STEPS_OF_CPU:
        return f"{steps:.1e} steps are for GPUs; a smaller case is listed"
    return too_large(problem, device)


def _reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """All steps as one: a product and a sum, modulo 2^32."""
    factor, addend = 1, 0
    for _ in range(problem.shape.get("r", 1)):
        factor, addend = factor * FACTOR % 2**32, (addend * FACTOR + ADDEND) % 2**32
    words = inputs["x"].astype(np.uint64) * np.uint64(factor) + np.uint64(addend)
    return {"y": words.astype(np.uint32)}  # the low half of each


def _steps(problem: Problem) -> int:
    """A product and a sum for each word and round."""
    return int(2 * np.prod(problem.array_shape("x")) * problem.shape.get("r", 1))


def _cases(kernel: str, shapes: Iterable[str]) -> tuple[Case, ...]:
    return tuple(parse(f"{kernel}/u32/{shape}") for shape in shapes)


def _kernel(
    name: str,
    description: str,
    dims: tuple[str, ...],
    *,
    moves: bool,
    checked: Iterable[str],
    timed: Iterable[str],
) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group=GROUP,
        dims=dims,
        bindings=(
            declare_input(
                "x", ("u32",), (dims[0], "n"), "words; each stretch is a launch of its own"
            ),
            declare_output("y", ("u32",), (dims[0], "n"), "words after all steps, modulo 2^32"),
        ),
        variants=(
            Variant(
                name="timeline",
                module="stretch",
                launch=_stretches,
                arithmetic="exact",
                requires=("timeline",),
                refuses=_refuses,
            ),
        ),
        inputs=lambda problem: {"x": data.bell(problem, "x")},
        check=Check(reference=_reference),
        work=Work(flops=_steps, flow=Flow(moves=moves)),
        cases=CaseList(lambda: _cases(name, checked)),
        timed=CaseList(lambda: _cases(name, timed)),
    )


LAUNCH_RATE = _kernel(
    "launch_rate",
    "Small launches, each a submission of its own: hot with many in flight, cold one by one.",
    ("s", "n"),
    moves=False,
    checked=("s1_n1", "s3_n129", "s65_n5"),
    timed=("s64_n1", "s256_n1"),
)
OVERLAP = _kernel(
    "overlap",
    "Uploads, computes and reads back parts: hot all at once, cold a part after the other.",
    ("s", "n", "r"),
    moves=True,
    checked=("s1_n1_r1", "s2_n127_r3", "s7_n1025_r2"),
    timed=(f"s8_n{1 << 16}_r64", f"s16_n{1 << 22}_r1024"),
)

SUBMISSIONS = (LAUNCH_RATE, OVERLAP)
