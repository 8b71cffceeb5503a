"""copy: memory to memory, the yardstick of bandwidth."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Problem,
    Shapes,
    Variant,
    grid,
)

THREADS = 128  # of which each copies 64 bytes; every device has as many
WORKGROUP_BYTES = THREADS * 64


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    size = problem.shape["n"] * problem.item_bytes("x")
    groups = grid(-(-size // WORKGROUP_BYTES))
    return Launch(
        groups=groups,
        push=struct.pack("<3I", size // 4, size % 4 // 2, groups[0]),
        constants={0: THREADS},
    )


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    return {"y": inputs["x"].astype("f8")}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    if len(shapes["x"]) != 1:
        raise UsageError(f"copy takes x with one dimension, got {len(shapes['x'])}")
    return {"n": prod(shapes["x"])}


COPY = Kernel(
    name="copy",
    description="Copies a buffer: y = x, bit for bit.",
    group="copy",
    dims=("n",),
    bindings=(
        Binding(
            name="x", access="in", types=("f32", "f16"), dims=("n",), description="what is copied"
        ),
        Binding(
            name="y",
            access="out",
            types=("f32", "f16"),
            dims=("n",),
            same_as="x",
            description="the copy",
        ),
    ),
    variants=(
        Variant(
            name="portable",
            module="copy",
            entry="copy",
            arguments=lambda types: (),
            launch=launch,
            path="exact",
        ),
    ),
    inputs=lambda problem: {"x": data.plain(problem, "x")},
    reference=reference,
    flops=lambda problem: 0,
    infer=infer,
    cases=tuple(
        parse(f"copy/{fmt}/n{n}")
        for fmt in ("f32", "f16")
        for n in (1, 2, 3, 5, 31, 127, 4095, 4096, 4097, 8191, 65537, 1000003)
    ),
    timed=tuple(parse(f"copy/{fmt}/n{n}") for fmt in ("f32", "f16") for n in (1 << 20, 1 << 24)),
)
