"""Cases are made when they are asked for, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from vkbench.case import Case, parse
from vkbench_shaders.case_list import CaseList


def test_cases_are_made_once_and_when_asked_for() -> None:
    made: list[Case] = []

    def make_cases() -> Iterator[Case]:
        made.append(parse("copy/f32/n1"))
        yield made[-1]

    listed = CaseList(make_cases)
    assert made == []
    assert listed[0] is made[0]
    assert len(listed) == 1
    assert [*listed, *listed[:1]] == [made[0], made[0]]
    assert listed == (parse("copy/f32/n1"),)
    assert len(made) == 1


def test_loading_the_catalogue_makes_few_cases() -> None:
    """A tenth at most: some families list theirs when they are loaded."""
    code = """
from vkbench import case
made = 0
make = case.Case.__init__
def count_case(self, **fields):
    global made
    made += 1
    make(self, **fields)
case.Case.__init__ = count_case
from vkbench_shaders.catalogue import KERNELS
loaded = made
listed = sum(len(kernel.cases) for kernel in KERNELS)
print(loaded, listed, made)
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded, listed, made = map(int, ran.stdout.split())
    assert 10 * loaded < listed <= made
