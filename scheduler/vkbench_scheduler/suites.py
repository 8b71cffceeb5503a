"""Suites: named sets of cases, one entry each.

The catalogue lists the cases; a suite only chooses among them, so a new kernel or format is in
every suite whose rows it fits. A kernel is compiled for some sixty sets of formats: suites that are
to be quick look at a few of them, one of each kind of storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from vkbench import names
from vkbench.job import Mode
from vkbench_shaders.families import families


@dataclass(frozen=True, kw_only=True)
class Row:
    """Some cases of the catalogue."""

    kernels: tuple[str, ...] = ("*",)  # globs
    formats: tuple[str, ...] = ("*",)  # globs; every binding's format fits one
    mode: Mode = Mode.BOTH  # correctness takes the checked cases, performance the timed ones
    each: int = 0  # so many of each kernel and its formats, from plain and small to large; 0: all
    every_variant: bool = False  # each code path, not only the one that a device would choose
    most_flops: float = inf  # of a launch
    most_bytes: float = inf  # of all its buffers


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named set of cases."""

    name: str
    description: str
    rows: tuple[Row, ...]
    measure_seconds: float = 1.0  # budget of one metric of a timing


FEW = ("f32", "f16", "q4_0", "q4_K", "q8_0", "q8_1", "i32", "i64")
ABOUT_BLOCKS = tuple(dict.fromkeys(family.kernel.name for family in families()))

QUICK = Suite(
    name="quick",
    description="Every kernel checked on each code path in few formats, and timed: CPU: a minute.",
    rows=(
        Row(mode=Mode.CORRECTNESS, every_variant=True, formats=FEW, each=3),
        Row(
            mode=Mode.PERFORMANCE,
            formats=("f32", "q4_0", "i32", "i64"),
            each=1,
            most_flops=3e9,
            most_bytes=128e6,
        ),
    ),
    measure_seconds=0.3,
)

SPINE = Suite(
    name="spine",
    description="Every kernel's every case in few formats, checked and timed: CPU: ten minutes.",
    rows=(
        Row(mode=Mode.CORRECTNESS, every_variant=True, formats=FEW),
        Row(mode=Mode.PERFORMANCE, formats=FEW, most_flops=3e9, most_bytes=128e6),
    ),
)

QUANT = Suite(
    name="quant",
    description="All that is done with blocks, checked in every format on each code path.",
    rows=(Row(mode=Mode.CORRECTNESS, every_variant=True, kernels=ABOUT_BLOCKS),),
)

QUANT_PERF = Suite(
    name="quant-perf",
    description="All that is done with blocks, timed in every format on the sizes of models.",
    rows=(Row(mode=Mode.PERFORMANCE, kernels=ABOUT_BLOCKS),),
    measure_seconds=0.5,
)

SUITES: tuple[Suite, ...] = (QUICK, SPINE, QUANT, QUANT_PERF)

_BY_NAME: Mapping[str, Suite] = {suite.name: suite for suite in SUITES}
if len(_BY_NAME) != len(SUITES):
    raise ValueError("two suites have one name")


def suite_named(name: str) -> Suite:
    """A suite by name, whatever its case; UnknownName with the nearest otherwise."""
    return _BY_NAME[names.pick(name, _BY_NAME, "suite")]
