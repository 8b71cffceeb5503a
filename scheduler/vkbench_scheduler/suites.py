"""Suites: named sets of cases, one entry each.

The catalogue lists the cases; a suite only chooses among them, so a new kernel is in every suite.
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
    mode: Mode = Mode.BOTH  # correctness takes the checked cases, performance the timed ones
    smallest: bool = False  # of each kernel and format only the plainest and smallest
    every_variant: bool = False  # each code path, not only the one that a device would choose


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named set of cases."""

    name: str
    description: str
    rows: tuple[Row, ...]
    measure_seconds: float = 1.0  # budget of one metric of a timing


QUICK = Suite(
    name="quick",
    description="Every kernel checked on each code path, timed once a format: a minute on a CPU.",
    rows=(
        Row(mode=Mode.CORRECTNESS, every_variant=True),
        Row(mode=Mode.PERFORMANCE, smallest=True),
    ),
    measure_seconds=0.5,
)

SPINE = Suite(
    name="spine",
    description="Every listed case of every kernel, checked on each code path, and timed.",
    rows=(
        Row(mode=Mode.CORRECTNESS, every_variant=True),
        Row(mode=Mode.PERFORMANCE),
    ),
)

SUITES: tuple[Suite, ...] = (QUICK, SPINE)

_BY_NAME: Mapping[str, Suite] = {suite.name: suite for suite in SUITES}
if len(_BY_NAME) != len(SUITES):
    raise ValueError("two suites have one name")


def suite_named(name: str) -> Suite:
    """A suite by name, whatever its case; UnknownName with the nearest otherwise."""
    return _BY_NAME[names.pick(name, _BY_NAME, "suite")]
