"""The same work by numpy on this host, now: the other side of a claim about CPUs.

numpy does it by the functions of the peer `numpy`, on random numbers, and is not judged: the peer
is, by `vkbench run --peer numpy`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.peers.library import Call, View
from vkbench_worker.peers.numpy_library import NumpyLibrary
from vkbench_worker.peers.table import row_of, working_format

SECONDS = 1.0  # spent on one operation, beside the first time
LEAST, MOST = 3, 50  # times


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How long numpy takes."""

    seconds: float  # median
    best: float
    count: int


def measure(case: str) -> Measured:
    """Time a case over and over; the first time warms up."""
    operation = _operation(problem(case))
    operation()
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(taken) < LEAST or (len(taken) < MOST and time.perf_counter() < end):
        began = time.perf_counter()
        operation()
        taken.append(time.perf_counter() - began)
    return Measured(seconds=median(taken), best=min(taken), count=len(taken))


def _operation(posed: Problem) -> Call:
    """One call of numpy's function; blocks are numbers there."""
    library = NumpyLibrary()
    row = row_of(posed, library)
    rng = np.random.default_rng(0)

    def view(name: str) -> View:
        fmt = posed.format(name)
        *outer, inner = posed.layout(name).shape
        numbers = rng.standard_normal((*outer, fmt.numbers(inner)), np.float32)
        return library.array(numbers, working_format(row, library, posed, name))

    views = {each.name: view(each.name) for each in posed.kernel.bindings}
    return partial(library.functions[row.function], *row.arguments(posed, views))
