"""Suites: named sets of cases, one entry each.

The catalogue lists the cases; a suite only chooses among them, or names a shape of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vkbench import names
from vkbench.job import Mode


@dataclass(frozen=True, kw_only=True)
class Row:
    """Some cases of the catalogue."""

    kernel: str = "*"  # glob
    format: str = "*"  # glob
    shape: str = ""  # as typed, m=64,n=1,k=256; "" is every listed shape
    mode: Mode = (
        Mode.BOTH
    )  # listed shapes: correctness means the checked ones, performance the timed


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named set of cases."""

    name: str
    description: str
    rows: tuple[Row, ...]
    measure_seconds: float = 1.0  # budget of one metric of a timing


QUICK = Suite(
    name="quick",
    description="Every kernel checked, and timed on small shapes: about a minute on a CPU.",
    rows=(
        Row(mode=Mode.CORRECTNESS),
        Row(kernel="copy", shape="n=1048576", mode=Mode.PERFORMANCE),
        Row(kernel="dequantize", shape="m=512,k=4096", mode=Mode.PERFORMANCE),
        Row(kernel="mul_mat_vec", shape="m=1024,n=1,k=4096", mode=Mode.PERFORMANCE),
    ),
    measure_seconds=0.1,
)

SPINE = Suite(
    name="spine",
    description="Every listed case of every kernel, checked and timed.",
    rows=(Row(),),
)

SUITES: tuple[Suite, ...] = (QUICK, SPINE)

_BY_NAME: Mapping[str, Suite] = {suite.name: suite for suite in SUITES}
if len(_BY_NAME) != len(SUITES):
    raise ValueError("two suites have one name")


def suite_named(name: str) -> Suite:
    """A suite by name, whatever its case; UnknownName with the nearest otherwise."""
    return _BY_NAME[names.pick(name, _BY_NAME, "suite")]
