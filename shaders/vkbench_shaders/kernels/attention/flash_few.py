"""How attention of few queries is cut for cooperative matrices: into partitions, or not at all.

One launch for all positions saves what joins partitions: on an H200, a query over 256 positions of
f16, in heads of 128, takes 6.4 us instead of 8.8. Every workgroup then reads all keys, which takes
longer from 512 positions on.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from vkbench_shaders.kernel import Problem, Stage
from vkbench_shaders.kernels.attention.flash_plan import EIGHT, Few

_SUBGROUPS = 4  # of a workgroup
_CHUNK = 64  # numbers of a key that pass through shared memory at a time
_MOST_STEPS = 4  # of a partition
_SHORT_SUBGROUPS = {16: 16, 8: 4}  # of a workgroup that has all positions, by rows of a matrix
_COLUMNS = 32  # numbers of a value that it makes
_ENTRIES = {  # by rows of a matrix, then by the numbers of keys and values that they hold
    16: {64: "flash_few_64", 128: "flash_few_128", 256: "flash_few_256"},
    8: {64: "flash_few_64_small"},  # what Mesa's lavapipe has: its compiler takes minutes for more
}
_SHORT_ENTRIES = {
    16: {64: "flash_short_64", 128: "flash_short_128", 256: "flash_short_256"},
    8: {64: "flash_short_64_small"},
}


def widest(side: int) -> int:
    """Numbers of the longest keys and values that matrices of so many rows are for."""
    return max(_ENTRIES[side])


def longest(side: int) -> int:
    """Positions that workgroups may all have."""
    return _MOST_STEPS * _SHORT_SUBGROUPS[side] * side


def lengths(side: int) -> list[int]:
    """Positions of a partition, to choose from; first what should be the fastest."""
    return [_SUBGROUPS * side * steps for steps in range(1, _MOST_STEPS + 1)]


def plan(problem: Problem, side: int) -> Few | None:
    """Partitions of the length that is asked for; None if keys or values are too long."""
    width = _width(_ENTRIES, problem, side)
    if width is None:
        return None
    part = int(problem.params["part"]) or lengths(side)[0]
    return Few(
        rows=side,
        part=part,
        steps=part // (_SUBGROUPS * side),
        threads=_SUBGROUPS * side * side // EIGHT,
        entry=_ENTRIES[side][width],
        stage=_stage(side, width, part),
    )


def short(problem: Problem, side: int) -> Few | None:
    """One launch whose workgroups have all positions; None if these or the values are too many."""
    shape, subgroups = problem.shape, _SHORT_SUBGROUPS[side]
    width = _width(_SHORT_ENTRIES, problem, side)
    steps = max(1, ceil(shape["n"] / (subgroups * side)))
    if width is None or steps > _MOST_STEPS:
        return None
    queries = side * (width // EIGHT + 1)
    turn = side * max(_CHUNK // EIGHT + 1, _COLUMNS // EIGHT + 1 + side // EIGHT + 1, _COLUMNS // 4)
    return Few(
        rows=side,
        part=max(1, shape["n"]),
        steps=steps,
        threads=subgroups * side * side // EIGHT,
        entry=_SHORT_ENTRIES[side][width],
        stage=max(queries, subgroups * side) + subgroups * turn,
        shares=ceil(shape["e"] / _COLUMNS),
        is_short=True,
    )


def _width(entries: dict[int, dict[int, str]], problem: Problem, side: int) -> int | None:
    """The fewest numbers of keys and values that an entry point is for, and that hold these."""
    needed = max(problem.shape["d"], problem.shape["e"])
    return next((width for width in entries[side] if width >= needed), None)


def _stage(side: int, width: int, part: int) -> int:
    """Uint4s: queries and later weights, scores, and what each subgroup has for itself."""
    first = side * (max(width, part) // EIGHT + 1)
    scores = side * (part // 4 + 1)
    values = max(1, 128 // width) * (width // _SUBGROUPS // EIGHT + 1)
    return first + scores + _SUBGROUPS * side * max(_CHUNK // EIGHT + 1, values)


def _stages(module: str, entries: dict[int, dict[int, str]]) -> Iterator[Stage]:
    for of_side in entries.values():
        for entry in of_side.values():
            yield Stage(module=module, entry=entry, arguments=lambda types: (types["k"],))


STAGES = (*_stages("flash_few", _ENTRIES), *_stages("flash_short", _SHORT_ENTRIES))
