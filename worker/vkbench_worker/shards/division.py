"""How a case is divided into smaller cases of the same kernel, and its arrays with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vkbench.case import Case
from vkbench.errors import UsageError
from vkbench_shaders.kernel import Array, Problem


@dataclass(frozen=True, kw_only=True)
class Division:
    """What of a kernel each shard has: an equal part of some dimensions, all of the others."""

    dims: tuple[str, ...]
    cuts: Mapping[str, int]  # binding -> the axis that is cut; others are whole in every shard
    kept: tuple[str, ...]  # inputs that stay on their devices, as weights and caches do
    needs: Mapping[str, object]  # parameters with which shards are independent


DIVISIONS: Final[Mapping[str, Division]] = {
    # rows of the left matrix
    "matmul": Division(
        dims=("m",), cuts={"a": 1, "y": 1}, kept=("a",), needs={"layout": "contiguous"}
    ),
    # rows of the weights, which are columns of the result
    "mul_mat": Division(
        dims=("m",),
        cuts={"weights": 0, "y": 1},
        kept=("weights",),
        needs={"layout": "contiguous"},
    ),
    # heads; the slope of a position's bias follows from the number of a head
    "flash_attn": Division(
        dims=("g", "h"),
        cuts={"k": 1, "v": 1, "q": 1, "sinks": 0, "y": 1},
        kept=("k", "v"),
        needs={"layout": "contiguous", "max_bias": 0.0},
    ),
}


def division_of(problem: Problem, count: int) -> Division:
    """How to divide a problem into so many shards; UsageError where that is not possible."""
    found = DIVISIONS.get(problem.kernel.name)
    if not found:
        known = ", ".join(DIVISIONS)
        raise UsageError(f"{problem.kernel.name} cannot be divided; these can: {known}")
    for name, value in found.needs.items():
        if problem.params[name] != value:
            raise UsageError(f"shards need {name}={value}, not {name}={problem.params[name]}")
    for dim in found.dims:
        if problem.shape[dim] % count:
            raise UsageError(f"{dim}={problem.shape[dim]} has no {count} equal parts")
    return found


def shard_case(problem: Problem, count: int) -> Case:
    """The case of each of so many shards."""
    dims = division_of(problem, count).dims
    shape = {dim: size // count if dim in dims else size for dim, size in problem.shape.items()}
    return replace(problem.case, shape=shape)


def part(division: Division, name: str, array: Array, number: int, count: int) -> Array:
    """What a shard has of the array of a binding."""
    axis = division.cuts.get(name)
    return array if axis is None else np.split(array, count, axis)[number]


def gathered(division: Division, name: str, parts: list[Array]) -> Array:
    """An output, of the parts that the shards made."""
    return np.concatenate(parts, division.cuts[name])
