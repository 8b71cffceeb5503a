"""Lists the own cases of a program: declared ones, those a command prints, those of a library."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from vkbench.case import check_case_of_program
from vkbench.errors import UsageError, VkbenchError
from vkbench.programs.declaration import MOST_CASES
from vkbench.programs.program import GOOGLE, NVBENCH, Program
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.peers.programs.contained import run_to_the_end, start_program

LIST_SECONDS: Final = 60.0
_BENCHMARK: Final = re.compile(r"## \[\d+\] `(.*)` \(\d+ configurations?\)")
_AXIS: Final = re.compile(r"\* `(.*)` : \w+( \[pow2\])?.*")
_VALUE: Final = re.compile(r"  \* `(.*?)`.*")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The own cases of a program by their whole names, and how many could not be named."""

    cases: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()


def list_cases(program: Program, folder: Path) -> Listed:
    """The own cases of a build in a folder; VkbenchError if it cannot list them."""
    if program.cases and program.cases.names:
        return _name_cases(program.name, program.cases.names)
    listing: Mapping[str, tuple[str, Callable[[Iterable[str]], Iterator[str]]]] = {
        GOOGLE: ("--benchmark_list_tests=true", iter),
        NVBENCH: ("--list", read_nvbench_list),
    }
    if program.cases:
        return _name_cases(program.name, _run(program.cases.list, folder))
    if program.adapter not in listing:
        return Listed()
    option, read = listing[program.adapter]
    return _name_cases(program.name, read(_run([*program.run, option], folder)))


def read_nvbench_list(lines: Iterable[str]) -> Iterator[str]:
    """The states of nvbench's list: each benchmark with each value of its axes."""
    benchmarks: list[tuple[str, dict[str, list[str]]]] = []
    start = ""
    for line in lines:
        if benchmark := _BENCHMARK.fullmatch(line):
            benchmarks.append((benchmark[1], {}))
        elif benchmarks and (axis := _AXIS.fullmatch(line)):
            start = f"{axis[1]}={'pow2:' if axis[2] else ''}"
            benchmarks[-1][1][start] = []
        elif benchmarks and start and (value := _VALUE.fullmatch(line)):
            benchmarks[-1][1].setdefault(start, []).append(start + value[1])
    for name, axes in benchmarks:
        yield from ("/".join((name, *values)) for values in product(*axes.values()))


def _run(words: Iterable[str], folder: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        child = start_program([*words], folder, Path(scratch), is_apart=True)
        try:
            return run_to_the_end(child, time.monotonic() + LIST_SECONDS)
        except NoAnswer as error:
            raise VkbenchError(f"the build cannot list its cases: {error}") from error


def _name_cases(program: str, names: Iterable[str]) -> Listed:
    cases: dict[str, None] = {}
    unnamed: list[str] = []
    for name in map(str.strip, names):
        try:
            if name:
                cases[check_case_of_program(f"{program}:{name}")] = None
        except UsageError:
            unnamed.append(name)
        if len(cases) > MOST_CASES:
            raise VkbenchError(f"the build lists over {MOST_CASES} cases")
    return Listed(cases=tuple(cases), unnamed=tuple(unnamed))
