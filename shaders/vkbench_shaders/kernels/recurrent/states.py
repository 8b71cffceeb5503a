"""What kernels share that go on by one token of each sequence, whose states lie in tables.

A table has several states of a sequence: a launch reads one of them and leaves another.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Binding, Problem


def read_binding(name: str, dims: str, description: str, fmt: str = "f32") -> Binding:
    """An input, its dimensions by their letters."""
    return declare_input(name, (fmt,), tuple(dims), description)


def table_binding(name: str, dims: str, description: str) -> Binding:
    """A table of states."""
    return Binding(
        name=name, access="inout", types=("f32",), dims=tuple(dims), description=description
    )


ROUNDING = 8192  # bytes of shared memory where results are rounded
TURN = (
    read_binding("before", "s", "the state that each sequence goes on from", "i32"),
    read_binding("behind", "s", "the state that it leaves, which none goes on from", "i32"),
)


def name_results(types: Mapping[str, str]) -> str:
    """How shaders store results y: as numbers, or rounded to blocks."""
    return "as_numbers" if types["y"] == "f32" else "as_blocks"


def choose_states(problem: Problem) -> dict[str, Array]:
    """States in any order, of which none is both read and left."""
    s, n = problem.shape["s"], problem.shape["n"]
    if n < 2 * s:
        raise UsageError(f"n is {n}: {s} sequences read {s} states and leave {s} others")
    before = data.distinct(problem, "before", n)
    others = np.setdiff1d(np.arange(n, dtype=before.dtype), before)
    return {"before": before, "behind": others[::-1][:s].copy()}


def bytes_moved(problem: Problem) -> int:
    """Of tables the states that are read, and those that are left."""
    arrays = {b.name: prod(problem.array_shape(b.name)) for b in problem.kernel.bindings}
    for binding in problem.kernel.bindings:
        if binding.access == "inout":
            arrays[binding.name] = 2 * problem.shape["s"] * arrays[binding.name]
            arrays[binding.name] //= problem.shape["n"]
    return sum(size * problem.item_bytes(name) for name, size in arrays.items())
