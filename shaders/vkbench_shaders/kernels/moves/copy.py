"""copy: memory to memory, the yardstick of bandwidth."""

from __future__ import annotations

from vkbench.case import parse
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
    Work,
    grid,
)
from vkbench_shaders.kernels.shared.portable import portable

THREADS = 128  # of which each copies 64 bytes; every device has as many
WORKGROUP_BYTES = THREADS * 64


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    size = problem.shape["n"] * problem.item_bytes("x")
    groups = grid(-(-size // WORKGROUP_BYTES))
    return Launch(
        groups=groups,
        push={"word_count": size // 4, "odd_half": size % 4 // 2, "groups_x": groups[0]},
        constants={"THREADS": THREADS},
    )


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    return {"y": inputs["x"].astype("f8")}


COPY = Kernel(
    name="copy",
    description="Copies a buffer: y = x, bit for bit.",
    group="copy",
    dims=("n",),
    bindings=(
        declare_input("x", ("f32", "f16"), ("n",), "what is copied"),
        declare_output("y", ("f32", "f16"), ("n",), "the copy", same_as="x"),
    ),
    variants=(portable("copy", launch, "exact"),),
    inputs=lambda problem: {"x": data.plain_values(problem, "x")},
    check=Check(reference=reference),
    work=Work(flops=lambda problem: 0),
    forms=Forms(empty=("n",)),
    cases=CaseList(
        lambda: (
            parse(f"copy/{fmt}/n{n}")
            for fmt in ("f32", "f16")
            for n in (0, 1, 2, 3, 5, 31, 127, 4095, 4096, 4097, 8191, 65537, 1000003)
        )
    ),
    timed=CaseList(
        lambda: (parse(f"copy/{fmt}/n{n}") for fmt in ("f32", "f16") for n in (1 << 20, 1 << 24))
    ),
)
