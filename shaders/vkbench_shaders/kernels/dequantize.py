"""dequantize: quantised weights to plain numbers."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders import data, quants
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
    matrix_shape,
)

THREADS = 128
FOURS = 8  # of weights a thread


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    fours = problem.shape["m"] * problem.shape["k"] // 4
    groups = grid(-(-fours // (THREADS * FOURS)))
    return Launch(groups=groups, push=struct.pack("<2I", fours, groups[0]), constants={0: THREADS})


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """In float64; rounded once to y's format, which is what a CPU defines."""
    weights = inputs["weights"] if rows is None else inputs["weights"][rows]
    exact = quants.dequantise(problem.types["weights"], weights)
    return {"y": exact.astype(problem.format("y").dtype).astype(np.float64)}


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    m, k = matrix_shape("weights", shapes, types)
    return {"m": m, "k": k}


DEQUANTIZE = Kernel(
    name="dequantize",
    description="Decodes quantised weights: y = weights as plain numbers.",
    dims=("m", "k"),
    bindings=(
        Binding(
            name="weights",
            access="in",
            types=("q4_0", "q4_1", "q8_0"),
            dims=("m", "k"),
            description="rows of blocks",
        ),
        Binding(
            name="y",
            access="out",
            types=("f32", "f16"),
            dims=("m", "k"),
            description="the same, decoded",
        ),
    ),
    variants=(
        Variant(
            name="portable",
            module="dequantize",
            entry="dequantize",
            arguments=lambda types: (types["weights"], types["y"]),
            launch=launch,
            path="exact",
        ),
    ),
    inputs=lambda problem: {"weights": data.weights(problem, "weights")},
    reference=reference,
    flops=lambda problem: problem.shape["m"] * problem.shape["k"],
    infer=infer,
    rows="m",
    cases=tuple(
        parse(f"dequantize/{fmt}{y}/m{m}_k{k}")
        for fmt in ("q4_0", "q4_1", "q8_0")
        for y in ("", ":y=f16")
        for m, k in (
            (1, 32),
            (3, 32),
            (1, 64),
            (7, 96),
            (127, 32),
            (13, 1056),
            (64, 4096),
            (129, 256),
            (1021, 352),
        )
    ),
    timed=tuple(
        parse(f"dequantize/{fmt}{y}/m4096_k4096")
        for fmt in ("q4_0", "q4_1", "q8_0")
        for y in ("", ":y=f16")
    ),
)
