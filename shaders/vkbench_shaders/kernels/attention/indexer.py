"""lightning_indexer: how much attention should care for each position, by small heads of its own.

DeepSeek's sparse attention looks at the positions with the highest scores alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output, sizes_of
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Push,
    Shapes,
    Work,
)
from vkbench_shaders.kernels.shared.limits import too_far
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

THREADS = 128  # positions of a workgroup
HEADS = 8  # of which queries are in shared memory at a time
MOST_SIZE = 256  # numbers of a head
_KEYS = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")  # as caches have
_HIDDEN_EVERY = 3  # of so many positions one is hidden, and one counts for less


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    """A workgroup for each token and stretch of positions."""
    s, t, h, n, k = problem.shape.values()
    push: Push = {"tokens": t, "heads": h, "positions": n, "vec4s": k // 4}
    return Launch(groups=(-(-n // THREADS), t, s), push=push)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    s, t, _, n, k = problem.shape.values()
    if k % 4 or k > MOST_SIZE:
        return f"heads have a multiple of 4 numbers, {MOST_SIZE} at most, not {k}"
    if max(s, t, -(-n // THREADS)) > MOST_GROUPS:
        return f"{s} sequences, {t} tokens, {n} positions are too many"
    return too_far(problem, device)


def score(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    chosen = slice(None) if rows is None else rows
    q, weights, mask = (
        inputs[name][:, chosen].astype(np.float64) for name in ("q", "weights", "mask")
    )
    k = quants.dequantise(problem.types["k"], inputs["k"]).astype(np.float64)
    products = np.einsum("sthk,snk->sthn", q, k)
    return {"y": np.einsum("sthn,sth->stn", np.maximum(products, 0), weights) + mask}


def inputs(problem: Problem) -> dict[str, Array]:
    """A mask that hides some positions (-Inf) and lowers the scores of others."""
    arrays = {name: data.bell(problem, name) for name in ("q", "weights")}
    make_keys = data.weights if problem.format("k").quantised else data.bell
    mask = np.zeros(problem.array_shape("mask"), np.float16)
    mask[..., 1::_HIDDEN_EVERY] = -np.inf
    mask[..., 2::_HIDDEN_EVERY] = -1.5
    return {**arrays, "k": make_keys(problem, "k"), "mask": mask}


def infer_sizes(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the arrays; keys may have blocks."""
    *outer, items = shapes["k"]
    numbers = format_named(types["k"]).numbers(items)
    return sizes_of(LIGHTNING_INDEXER, {**shapes, "k": (*outer, numbers)})


_CASES = (
    "s1_t1_h1_n1_k4",
    "s1_t3_h64_n131_k128",
    "s2_t5_h7_n33_k64",
    "s1_t2_h9_n257_k20",
    "s3_t1_h16_n128_k256",
)
_OF_BLOCKS = (*_CASES[1:3], "s1_t2_h9_n257_k32")
_TIMED = ("s1_t1_h64_n32768_k128", "s1_t512_h64_n4096_k128")


def _shapes_of(fmt: str) -> tuple[str, ...]:
    if format_named(fmt).quantised:
        return _OF_BLOCKS
    return _CASES if fmt == "f32" else _CASES[1:4]


LIGHTNING_INDEXER = Kernel(
    name="lightning_indexer",
    description="Scores positions for sparse attention: y[t, n] = sum over heads h of"
    " w[t, h] * max(0, q[t, h] . k[n]), plus a mask.",
    group="attention",
    dims=("s", "t", "h", "n", "k"),
    bindings=(
        declare_input("q", ("f32",), ("s", "t", "h", "k"), "queries of each token's heads"),
        declare_input("k", _KEYS, ("s", "n", "k"), "a key for each position, which heads share"),
        declare_input("weights", ("f32",), ("s", "t", "h"), "how much each head counts"),
        declare_input("mask", ("f16",), ("s", "t", "n"), "what is added; -Inf hides"),
        declare_output("y", ("f32",), ("s", "t", "n"), "scores of positions for each token"),
    ),
    variants=(
        portable(
            "lightning_indexer",
            launch,
            "f32",
            arguments=lambda types: (types["k"],),
            refuses=refuses,
        ),
    ),
    forms=Forms(infer=infer_sizes),
    inputs=inputs,
    check=Check(reference=score, rows="t"),
    work=Work(flops=lambda problem: 2 * prod(problem.shape.values())),
    cases=CaseList(
        lambda: (
            parse(f"lightning_indexer/f32{'' if fmt == 'f32' else f':k={fmt}'}/{shape}")
            for fmt in _KEYS
            for shape in _shapes_of(fmt)
        )
    ),
    timed=CaseList(
        lambda: (
            parse(f"lightning_indexer/f32:k={fmt}/{shape}")
            for fmt in ("f16", "q8_0")
            for shape in _TIMED
        )
    ),
)
