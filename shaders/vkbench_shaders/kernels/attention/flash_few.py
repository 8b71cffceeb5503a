"""How attention of few queries is cut for cooperative matrices."""

from __future__ import annotations

from vkbench_shaders.kernel import Problem, Stage
from vkbench_shaders.kernels.attention.flash_plan import EIGHT, Few

_SUBGROUPS = 4  # of a workgroup
_CHUNK = 64  # numbers of a key that pass through shared memory at a time
_MOST_STEPS = 4  # of a partition
_ENTRIES = {  # by rows of a matrix, then by the numbers of keys and values that they hold
    16: {64: "flash_few_64", 128: "flash_few_128", 256: "flash_few_256"},
    8: {64: "flash_few_64_small"},  # what Mesa's lavapipe has: its compiler takes minutes for more
}


def widest(side: int) -> int:
    """Numbers of the longest keys and values that matrices of so many rows are for."""
    return max(_ENTRIES[side])


def lengths(side: int) -> list[int]:
    """Positions of a partition, to choose from; first what should be the fastest."""
    return [_SUBGROUPS * side * steps for steps in range(1, _MOST_STEPS + 1)]


def plan(problem: Problem, side: int) -> Few | None:
    """Partitions of the length that is asked for; None if keys or values are too long."""
    needed = max(problem.shape["d"], problem.shape["e"])
    width = next((width for width in _ENTRIES[side] if width >= needed), None)
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


def _stage(side: int, width: int, part: int) -> int:
    """Uint4s: queries and later weights, scores, and what each subgroup has for itself."""
    first = side * (max(width, part) // EIGHT + 1)
    scores = side * (part // 4 + 1)
    values = max(1, 128 // width) * (width // _SUBGROUPS // EIGHT + 1)
    return first + scores + _SUBGROUPS * side * max(_CHUNK // EIGHT + 1, values)


STAGES = tuple(
    Stage(module="flash_few", entry=entry, arguments=lambda types: (types["k"],))
    for entries in _ENTRIES.values()
    for entry in entries.values()
)
