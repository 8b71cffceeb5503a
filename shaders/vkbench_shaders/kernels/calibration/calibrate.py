"""What a device can do at most: memory read, arithmetic by its kinds, and the cost of a launch.

Their timings are the roofs that other kernels' are held against. All of it is exact: chains are so
chosen that each step counts and no number is ever rounded, so that a step left out shows. Large
cases are for GPUs; what a CPU driver would take long for, it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vkbench.calibration import CANARIES
from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Kernel,
    Launch,
    Problem,
    Push,
    Variant,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.calibration.matrix_rate import MATRIX_RATE, MATRIX_RATE_8
from vkbench_shaders.kernels.shared.portable import portable

GROUP = "calibrate"
THREADS = 128
STRETCH = THREADS * 8 * 4  # words that a workgroup of read_bandwidth reads at a time
SHARE = THREADS * 8  # words of a workgroup of chains
STEPS = 32  # of a round
WORD = 4  # bytes
LAUNCH_THREADS = 32
MOST_OF_CPU = 2e9  # operations of a launch
MOST_BYTES_OF_CPU = 1e8  # of all buffers
MOST_EXACT = {"f32": 1 << 20, "f16": 1 << 10}  # rounds after which all still are whole numbers
FACTOR, ADDEND, LAST = -1.0, 3.0, 4.0  # each second step undoes the one before, but for the last
FACTORS = (5, -6, 77, -77)  # of dot_i8


def _cases(kernel: str, shapes: Iterable[str]) -> tuple[Case, ...]:
    return tuple(parse(f"{kernel}/{shape}") for shape in shapes)


def _refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if device.type == "cpu" and problem.flops > MOST_OF_CPU:
        return f"{problem.flops:.1e} operations a launch are for GPUs; a smaller case is listed"
    if device.type == "cpu" and problem.storage_bytes > MOST_BYTES_OF_CPU:
        return f"{problem.storage_bytes:.1e} bytes are for GPUs; a smaller case is listed"
    return too_large(problem, device)


def _read(problem: Problem, device: DeviceFacts) -> Launch:
    sums = problem.shape["g"]
    groups = grid(sums)
    push = {"words": problem.shape["n"], "sums": sums, "groups_x": groups[0]}
    return Launch(groups=groups, push=push)


def _sums(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Stretches added up, then each g-th of them."""
    count, starts = problem.shape["g"], np.arange(0, problem.shape["n"], STRETCH)
    stretches = np.add.reduceat(inputs["x"], starts, dtype=np.uint32)
    padded = np.zeros(-(-stretches.size // count) * count, np.uint32)
    padded[: stretches.size] = stretches
    return {"y": padded.reshape(-1, count).sum(axis=0, dtype=np.uint32)}


READ_BANDWIDTH = Kernel(
    name="read_bandwidth",
    description="Reads a buffer and adds up its words: how fast memory can be read at most.",
    group=GROUP,
    dims=("n", "g"),
    bindings=(
        declare_input("x", ("u32",), ("n",), "words"),
        declare_output(
            "y",
            ("u32",),
            ("g",),
            f"sums modulo 2^32, each of every g-th stretch of {STRETCH} words",
        ),
    ),
    variants=(portable("read_bandwidth", _read, "exact", refuses=_refuses),),
    inputs=lambda problem: {"x": data.bell(problem, "x")},
    check=Check(reference=_sums),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(
        lambda: _cases(
            "read_bandwidth/u32",
            ("n1_g1", "n5_g2", "n4095_g1", "n4096_g3", "n4097_g1", "n65537_g7", "n1000003_g64"),
        )
    ),
    timed=CaseList(lambda: _cases("read_bandwidth/u32", (f"n{1 << 23}_g512", f"n{1 << 27}_g8192"))),
)


def _chains(problem: Problem, factors: Push) -> Launch:
    words = problem.shape["n"] * problem.item_bytes("x") // WORD
    groups = grid(-(-words // SHARE))
    push = {"words": words, "rounds": problem.shape["r"], "groups_x": groups[0], **factors}
    return Launch(groups=groups, push=push)


def _fma(problem: Problem, device: DeviceFacts) -> Launch:
    return _chains(problem, {"factor": FACTOR, "addend": ADDEND, "last": LAST})


def _fma_refuses(problem: Problem, device: DeviceFacts) -> str | None:
    most = MOST_EXACT[problem.types["x"]]
    if problem.shape["r"] > most:
        return f"in {problem.types['x']} the numbers stay exact for {most} rounds"
    if problem.shape["n"] * problem.item_bytes("x") % WORD:
        return "halves come in pairs: n is even"
    return _refuses(problem, device)


def _fma_inputs(problem: Problem) -> dict[str, Array]:
    """Whole numbers from -512 to 511, which halves hold."""
    return {"x": np.floor(data.uniform(problem, "x", -512.0, 511.5))}


def _fma_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """A round adds 1: FACTOR (FACTOR x + ADDEND) + LAST, after 15 pairs of steps that add 0."""
    return {"y": inputs["x"].astype("f8") + (LAST - ADDEND) * problem.shape["r"]}


def _fma_variant(name: str, fmt: str, numbers: str, requires: tuple[str, ...]) -> Variant:
    return Variant(
        name=name,
        module="fma",
        entry="fma_chains",
        arguments=lambda types: (numbers,),
        launch=_fma,
        arithmetic="exact",
        requires=requires,
        accepts=lambda types: types["x"] == fmt,
        refuses=_fma_refuses,
    )


FMA = Kernel(
    name="fma",
    description=f"Rounds of {STEPS} multiply-adds in registers: what a device has of them at most.",
    group=GROUP,
    dims=("n", "r"),
    bindings=(
        declare_input("x", ("f32", "f16"), ("n",), "whole numbers"),
        declare_output("y", ("f32", "f16"), ("n",), "x + r, for each round adds 1", same_as="x"),
    ),
    variants=(
        _fma_variant("portable", "f32", "single", ()),
        _fma_variant("pairs", "f16", "halves", ("fp16",)),
    ),
    inputs=_fma_inputs,
    check=Check(reference=_fma_reference),
    work=Work(flops=lambda problem: 2 * STEPS * problem.shape["n"] * problem.shape["r"]),
    cases=CaseList(
        lambda: (
            *_cases("fma/f32", ("n1_r1", "n5_r3", "n1023_r2", "n1025_r7", "n65537_r16")),
            *_cases("fma/f16", ("n2_r1", "n6_r3", "n2046_r2", "n2050_r7", "n65538_r32")),
        )
    ),
    timed=CaseList(
        lambda: (
            *map(parse, CANARIES),
            *_cases("fma/f32", (f"n{1 << 24}_r256",)),
            *_cases("fma/f16", (f"n{1 << 16}_r64", f"n{1 << 24}_r256")),
        )
    ),
)


def _dots(problem: Problem, device: DeviceFacts) -> Launch:
    (factors,) = np.array(FACTORS, "i1").view("<u4").tolist()
    return _chains(problem, {"factors": factors})


def _dots_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Step by step, for nothing shorter leads there."""
    words = inputs["x"] if rows is None else inputs["x"][rows]
    factors = np.array(FACTORS, np.int32)
    for _ in range(STEPS * problem.shape["r"]):
        bytes_of = words.astype("<i4").view(np.int8).reshape(-1, 4)
        words = words + (bytes_of * factors).sum(axis=1, dtype=np.int32)
    return {"y": words}


DOT_I8 = Kernel(
    name="dot_i8",
    description=f"Rounds of {STEPS} products of four bytes by four, added up, in registers.",
    group=GROUP,
    dims=("n", "r"),
    bindings=(
        declare_input("x", ("i32",), ("n",), "words, of four signed bytes each"),
        declare_output(
            "y",
            ("i32",),
            ("n",),
            f"words after r times {STEPS} steps v + v.{FACTORS}, modulo 2^32",
            same_as="x",
        ),
    ),
    variants=(
        Variant(
            name="int_dot",
            module="dot_i8",
            launch=_dots,
            arithmetic="exact",
            requires=("int_dot",),
            refuses=_refuses,
        ),
    ),
    inputs=lambda problem: {"x": data.bell(problem, "x")},
    check=Check(reference=_dots_reference, rows="n"),
    work=Work(flops=lambda problem: 8 * STEPS * problem.shape["n"] * problem.shape["r"]),
    cases=CaseList(
        lambda: _cases("dot_i8/i32", ("n1_r1", "n5_r3", "n1023_r2", "n1025_r7", "n40001_r2"))
    ),
    timed=CaseList(lambda: _cases("dot_i8/i32", (f"n{1 << 16}_r4", f"n{1 << 24}_r64"))),
)


def _launch(problem: Problem, device: DeviceFacts) -> Launch:
    groups = grid(-(-problem.shape["n"] // LAUNCH_THREADS))
    return Launch(groups=groups, push={"words": problem.shape["n"], "groups_x": groups[0]})


LAUNCH = Kernel(
    name="launch",
    description="Writes the numbers from 1 on: of one word, what a launch costs that does nothing.",
    group=GROUP,
    dims=("n",),
    bindings=(declare_output("y", ("u32",), ("n",), "1, 2, 3, ..."),),
    variants=(portable("launch", _launch, "exact"),),
    inputs=lambda problem: {},
    check=Check(
        reference=lambda problem, inputs, rows: {
            "y": np.arange(1, problem.shape["n"] + 1, dtype=np.uint32)
        },
    ),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(lambda: _cases("launch/u32", ("n1", "n2", "n33", "n4097"))),
    timed=CaseList(lambda: _cases("launch/u32", ("n1",))),
)

CALIBRATE = (READ_BANDWIDTH, FMA, DOT_I8, MATRIX_RATE, MATRIX_RATE_8, LAUNCH)
