"""How a case is divided into smaller cases of the same kernel, and its arrays with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    columns: str = ""  # dimension of which a shard may do a piece after the other; "": none
    pieces: Mapping[str, int] = field(default_factory=dict)  # binding -> its axis of that dimension


DIVISIONS: Final[Mapping[str, Division]] = {
    # rows of the left matrix
    "matmul": Division(
        dims=("m",),
        cuts={"a": 1, "y": 1},
        kept=("a",),
        needs={"layout": "contiguous"},
        columns="n",
        pieces={"b": 2, "y": 2},
    ),
    # rows of the weights, which are columns of the result
    "mul_mat": Division(
        dims=("m",),
        cuts={"weights": 0, "y": 1},
        kept=("weights",),
        needs={"layout": "contiguous"},
        columns="n",
        pieces={"x": 0, "y": 0},
    ),
    # heads; the slope of a position's bias follows from the number of a head
    "flash_attn": Division(
        dims=("g", "h"),
        cuts={"k": 1, "v": 1, "q": 1, "sinks": 0, "y": 1},
        kept=("k", "v"),
        needs={"layout": "contiguous", "max_bias": 0.0},
    ),
}


def division_of(problem: Problem, count: int, pieces: int = 1) -> Division:
    """How to divide a problem into so many shards of so many pieces; UsageError if it cannot be."""
    division = DIVISIONS.get(problem.kernel.name)
    if not division:
        known = ", ".join(DIVISIONS)
        raise UsageError(f"{problem.kernel.name} cannot be divided; these can: {known}")
    for name, value in division.needs.items():
        if problem.params[name] != value:
            raise UsageError(f"shards need {name}={value}, not {name}={problem.params[name]}")
    for dim in division.dims:
        if problem.shape[dim] % count:
            raise UsageError(f"{dim}={problem.shape[dim]} has no {count} equal parts")
    if pieces > 1 and not division.columns:
        raise UsageError(f"{problem.kernel.name} has no pieces: leave out --pieces")
    if division.columns and problem.shape[division.columns] % pieces:
        size = problem.shape[division.columns]
        raise UsageError(f"{division.columns}={size} has no {pieces} equal pieces")
    return division


def shard_case(problem: Problem, count: int, pieces: int = 1) -> Case:
    """The case of each piece of each of so many shards."""
    division = division_of(problem, count, pieces)
    parts = dict.fromkeys(division.dims, count) | {division.columns: pieces}
    shape = {dim: size // parts.get(dim, 1) for dim, size in problem.shape.items()}
    return replace(problem.case, shape=shape)


@dataclass(frozen=True, kw_only=True)
class Share:
    """Which piece of which shard, of how many."""

    shard: int
    shards: int
    piece: int = 0
    pieces: int = 1


def part(division: Division, name: str, array: Array, share: Share) -> Array:
    """What a piece of a shard has of the array of a binding."""
    if name in division.cuts:
        array = np.split(array, share.shards, division.cuts[name])[share.shard]
    if name in division.pieces:
        array = np.split(array, share.pieces, division.pieces[name])[share.piece]
    return array


def gather_parts(division: Division, name: str, parts: Sequence[Sequence[Array]]) -> Array:
    """An output, of the parts that the shards made, each of its pieces."""
    shards = [
        np.concatenate(pieces, division.pieces[name]) if len(pieces) > 1 else pieces[0]
        for pieces in parts
    ]
    return np.concatenate(shards, division.cuts[name])
