"""The success metrics of the plans that vkbench grew from, each with what was measured here.

Where a metric is about one of our kernels, its time is that of the newest results of this host's
devices; what it is held against is measured now, in this process. What nobody can measure here says
why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from statistics import geometric_mean
from typing import TYPE_CHECKING

import numpy as np

from vkbench.case import parse
from vkbench.job import Mode, State
from vkbench_cli import cpu
from vkbench_shaders.formats import format_named
from vkbench_shaders.quants import dequantise, gguf_block, quantise

if TYPE_CHECKING:
    from vkbench_db.queries import ResultRow

Results = Sequence["ResultRow"]  # the newest of each piece of work of this host's devices


class Standing(StrEnum):
    """How a target stands."""

    MET = "met"
    MISSED = "missed"
    UNMEASURABLE = "unmeasurable"
    NO_RESULT = "no result"  # of this host, yet


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found out about a target."""

    standing: Standing
    measured: str = ""
    value: float | None = None  # the same for programs
    how: str = ""  # of which results; or why not, or how to get them


@dataclass(frozen=True, kw_only=True)
class Target:
    """A success metric."""

    plan: str  # number of the plan that names it
    name: str
    wanted: str
    find: Callable[[Results], Found]


def found(results: Results) -> list[tuple[Target, Found]]:
    """All targets, in the order of their table."""
    return [(target, target.find(results)) for target in TARGETS]


def _against_cpu(results: Results, *, cases: Sequence[str], least: float) -> Found:
    """How many times as fast as numpy these cases are, by their geometric mean."""
    ours = _fastest(results, cases)
    if not ours:
        how = f"run `vkbench run --case {cases[0]} --mode performance` on this host"
        return Found(standing=Standing.NO_RESULT, how=how)
    ratios = [
        cpu.measure(_on_cpu(row.case_name)).seconds / row.seconds for row in ours if row.seconds
    ]
    mean = geometric_mean(ratios)
    said = ", ".join(f"{row.case_name} {each:.3g}" for row, each in zip(ours, ratios, strict=True))
    return Found(
        standing=_met(mean >= least),
        measured=f"{mean:.3g} times numpy",
        value=mean,
        how=f"{ours[0].device_name}: {said}",
    )


def _fastest(results: Results, cases: Sequence[str]) -> list[ResultRow]:
    """Hot timings of one device, that which is fastest at the first of the cases that ran."""
    timed = [row for row in results if row.metric == "hot" and row.seconds]
    timed = sorted(timed, key=lambda row: row.seconds or 0)
    by_case = {case: [row for row in timed if row.case_name == case] for case in cases}
    device = next((rows[0].device for rows in by_case.values() if rows), "")
    firsts = (next((r for r in rows if r.device == device), None) for rows in by_case.values())
    return [row for row in firsts if row]


def _on_cpu(case: str) -> cpu.Operation:
    """The same work for numpy; blocks are numbers there."""
    asked = parse(case)
    sizes = asked.shape
    if "k" in sizes:
        return cpu.product(sizes["m"], sizes["n"], sizes["k"])
    rows, width = sizes["b"] * sizes["c"] * sizes["h"], sizes["w"]
    if asked.kernel in cpu.ELEMENTWISE:
        return cpu.ELEMENTWISE[asked.kernel](rows * width)
    return cpu.reduction(asked.kernel, rows, width)


def _no_cuda(_: Results) -> Found:
    has_torch = find_spec("torch") is not None
    why = (
        "vkbench runs no CUDA: measure both in one run, on one GPU"
        if has_torch
        else "there is no CUDA peer here: PyTorch is not installed"
    )
    return Found(standing=Standing.UNMEASURABLE, how=why)


def _unmeasurable(_: Results, *, why: str) -> Found:
    return Found(standing=Standing.UNMEASURABLE, how=why)


def _error_of_blocks(_: Results) -> Found:
    values = np.random.default_rng(0).standard_normal((1024, 4096)).astype(np.float32)
    errors = np.abs(dequantise("q4_0", quantise("q4_0", values)) - values)
    largest, mean = float(errors.max()), float(errors.mean())
    return Found(
        standing=_met(largest < 0.5),
        measured=f"at most {largest:.3g}, {mean:.3g} on average",
        value=largest,
        how="4,194,304 normal numbers, to blocks and back by gguf",
    )


def _compression(_: Results, *, format: str, least: float) -> Found:
    ratio = 32 / format_named(format).bits
    return Found(
        standing=_met(round(ratio, 1) >= least),
        measured=f"{ratio:.3g} times smaller than f32",
        value=ratio,
        how=f"{format_named(format).bits:g} bits a weight",
    )


def _layout(results: Results) -> Found:
    ours = format_named("q4_0")
    is_same = (ours.elements, ours.bytes) == gguf_block("q4_0") == (32, 18)
    encoded = [row for row in results if row.kernel == "quantize" and row.format == "q4_0"]
    return Found(
        standing=_met(is_same and all(row.state == State.PASSED for row in encoded)),
        measured=f"{ours.bytes} bytes a block of {ours.elements}",
        value=ours.bytes,
        how=f"as gguf has it; {_counted(encoded)} of kernels that write such blocks",
    )


def _parity(results: Results, *, case: str) -> Found:
    judged = [row for row in results if row.case_name == case and row.max_abs is not None]
    if not judged:
        how = f"run `vkbench run --case {case} --mode correctness` on this host"
        return Found(standing=Standing.NO_RESULT, how=how)
    worst = max(judged, key=lambda row: row.max_abs or 0)
    return Found(
        standing=_met((worst.max_abs or 0) <= 1e-5),
        measured=f"{worst.max_abs:.2g} at most from float64",
        value=worst.max_abs,
        how=f"{worst.device_name}, {worst.variant_run}; numpy in f32 is {_float32_error():.2g} off",
    )


def _float32_error() -> float:
    a, b = np.random.default_rng(0).standard_normal((2, 128, 128))
    exact = a.astype(np.float32).astype(np.float64) @ b.astype(np.float32).astype(np.float64)
    return float(np.abs(a.astype(np.float32) @ b.astype(np.float32) - exact).max())


def _checks(results: Results) -> Found:
    checked = [row for row in results if row.mode == Mode.CORRECTNESS]
    if not checked:
        return Found(standing=Standing.NO_RESULT, how="run `vkbench run` on this host")
    passed = sum(row.state == State.PASSED for row in checked)
    bad = [row for row in checked if row.state in (State.WRONG, State.FAILED)]
    return Found(
        standing=_met(not bad),
        measured=f"{passed} of {len(checked)} passed, {len(bad)} wrong or failed",
        value=len(bad),
        how="vkbench's own checks on this host, the newest of each; the plans' were never written",
    )


def _sizes(results: Results) -> Found:
    wanted = [f"matmul/f32/b1_m{size}_n{size}_k{size}" for size in (256, 512, 1024, 2048, 4096)]
    timed = {row.case_name for row in results if row.metric == "hot"} & set(wanted)
    if not timed:
        how = f"run `vkbench run --case {wanted[0]}` and so on"
        return Found(standing=Standing.NO_RESULT, how=how)
    return Found(
        standing=_met(len(timed) == len(wanted)),
        measured=f"{len(timed)} of {len(wanted)} sizes timed",
        value=len(timed),
        how=", ".join(case for case in wanted if case in timed),
    )


def _kernels(_: Results) -> Found:
    from vkbench_shaders.catalogue import KERNELS

    count = len(KERNELS)
    return Found(standing=_met(count >= 35), measured=f"{count}", value=count, how="catalogue")


def _rocm_kernels(_: Results) -> Found:
    from vkbench_shaders.rocm_grid import GRID

    count = len(GRID)
    how = "by name; the plan's tables add up to 123, it says 103"
    return Found(standing=_met(count >= 103), measured=f"{count}", value=count, how=how)


def _counted(rows: Results) -> str:
    passed = sum(row.state == State.PASSED for row in rows)
    return f"{passed} of {len(rows)} results passed" if rows else "no result here"


def _met(is_met: bool) -> Standing:
    return Standing.MET if is_met else Standing.MISSED


_SQUARES = tuple(f"matmul/f32/b1_m{n}_n{n}_k{n}" for n in (4096, 2048, 1024, 512, 256))
_BLOCKS = (
    "mul_mat/q4_0/m4096_n4096_k4096",
    "mul_mat/q4_0/m4096_n512_k14336",
    "mul_mat/q4_0/m1024_n1024_k1024",
    "mul_mat_vec/q4_0/m4096_n1_k14336",
    "mul_mat_vec/q4_0/m4096_n1_k4096",
)
_ELEMENTS = tuple(f"{name}/f32/b1_c1_h4096_w4096" for name in ("add", "mul", "silu"))
_ROWS = tuple(f"{name}/f32/b1_c1_h8192_w8192" for name in ("sum", "mean", "max", "argmax"))
_LOSS = "a model's loss is meant, which no kernel has alone"

TARGETS = (
    Target(plan="000", name="Q4_0 error", wanted="below 0.5", find=_error_of_blocks),
    Target(
        plan="000",
        name="Q4_0 size",
        wanted="7.1 times smaller",
        find=partial(_compression, format="q4_0", least=7.1),
    ),
    Target(
        plan="002",
        name="Q8_0 size",
        wanted="3.8 times smaller",
        find=partial(_compression, format="q8_0", least=3.8),
    ),
    Target(
        plan="002",
        name="IQ2_XXS size",
        wanted="16 times smaller",
        find=partial(_compression, format="iq2_xxs", least=16),
    ),
    Target(plan="000", name="Q4_0 layout", wanted="18 bytes a block of 32", find=_layout),
    Target(
        plan="002",
        name="F32 product 4096²",
        wanted="50 to 100 times the CPU",
        find=partial(_against_cpu, cases=_SQUARES[:1], least=50),
    ),
    Target(
        plan="002",
        name="F32 products, smaller",
        wanted="50 to 100 times the CPU",
        find=partial(_against_cpu, cases=_SQUARES[1:], least=50),
    ),
    Target(plan="002", name="F32 product 4096²", wanted="0.8 to 1.2 times CUDA", find=_no_cuda),
    Target(
        plan="002",
        name="Q4_0 products",
        wanted="100 to 200 times the CPU",
        find=partial(_against_cpu, cases=_BLOCKS, least=100),
    ),
    Target(plan="002", name="Q4_0 product", wanted="1.0 to 1.5 times CUDA f16", find=_no_cuda),
    Target(
        plan="002",
        name="element-wise",
        wanted="20 to 50 times the CPU",
        find=partial(_against_cpu, cases=_ELEMENTS, least=20),
    ),
    Target(plan="002", name="element-wise", wanted="0.9 to 1.1 times CUDA", find=_no_cuda),
    Target(
        plan="002",
        name="reductions",
        wanted="30 to 60 times the CPU",
        find=partial(_against_cpu, cases=_ROWS, least=30),
    ),
    Target(plan="002", name="reductions", wanted="0.9 to 1.1 times CUDA", find=_no_cuda),
    *(
        Target(
            plan="002",
            name=f"{name} loss",
            wanted=f"below {percent} %",
            find=partial(_unmeasurable, why=_LOSS),
        )
        for name, percent in (("Q4_0", "2"), ("Q8_0", "0.5"), ("IQ2_XXS", "5"))
    ),
    Target(
        plan="002",
        name="parity with the CPU, 128²",
        wanted="1e-5",
        find=partial(_parity, case="matmul/f32/b1_m128_n128_k128"),
    ),
    Target(plan="000, 001", name="tests", wanted="32 of 32; 20 of 20", find=_checks),
    Target(plan="002", name="product sizes", wanted="256² to 4096²", find=_sizes),
    Target(
        plan="002",
        name="workgroup sizes",
        wanted="AMD 64, NVIDIA 256 to 1024, Intel 128 to 256",
        find=partial(_unmeasurable, why="there is no search over workgroup sizes yet"),
    ),
    Target(plan="001", name="shaders", wanted="35 or more", find=_kernels),
    Target(plan="004", name="kernels", wanted="103", find=_rocm_kernels),
)
