"""How attention is launched with its scores in memory: a stage after the other."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Launch, Problem, too_large
from vkbench_shaders.kernels.attention import flash, flash_plan
from vkbench_shaders.kernels.attention.flash_plan import Tiles
from vkbench_shaders.kernels.shared import dense

_SIDE = 64  # rows and positions of the smallest tile
_TALL = 128  # rows of a tile where shared memory holds it


def plan(problem: Problem, device: DeviceFacts) -> Tiles:
    """Rows in tiles of scores, all positions in one partition."""
    length = ceil(problem.shape["n"] / _SIDE) * _SIDE
    rows = _TALL if _stage(_TALL) <= device.limits.get("max_shared_bytes", 0) else _SIDE
    if flash_plan.group_rows(problem) <= _SIDE:
        rows = _SIDE
    d, e = (ceil(problem.shape[dim] / dense.STEP) * dense.STEP for dim in "de")
    return Tiles(
        threads=rows,
        rows=rows,
        positions=_SIDE,
        part=max(length, _SIDE),
        key_size=d,
        value_fours=e // 4,
    )


def _stage(rows: int) -> int:
    """Bytes of shared memory: two steps."""
    return 2 * dense.STEP * (rows + _SIDE) * 4


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Scores, nothing, then queries, keys and values as padded singles."""
    chosen = plan(problem, device)
    groups = problem.shape["s"] * problem.shape["g"]
    scores = groups * flash_plan.padded_rows(problem, chosen) * chosen.part * 4
    return (scores, 0, *flash_plan.spread_bytes(problem, chosen))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Scores, weights and results, after what they need."""
    chosen, shape = plan(problem, device), problem.shape
    rows, groups = flash_plan.padded_rows(problem, chosen), shape["s"] * shape["g"]
    spread = flash.spread_launch(problem, chosen)
    most = min(shape["q"], MOST_GROUPS)
    scores = Launch(
        groups=(rows // chosen.rows, ceil(shape["n"] / _SIDE), groups),
        push=flash.push(problem, chosen, 1),
        constants={
            "THREADS": chosen.threads,
            "TILE_M": chosen.rows,
            "TILE_N": _SIDE,
            "SLICES": 1,
        },
        entry="sdpa_scores",
    )
    weights = Launch(
        groups=(most, shape["h"], shape["s"]),
        push=flash.push(problem, chosen, most),
        constants=spread.constants,
        entry="sdpa_weights",
    )
    wide = ceil(shape["e"] / _SIDE)
    values = replace(scores, groups=(rows // chosen.rows, wide, groups), entry="sdpa_values")
    return (spread, scores, weights, values)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot do it, or None."""
    if reason := flash.uneven(problem):
        return reason
    groups = max(*launch(problem, device)[1].groups, problem.shape["h"])
    reason = flash_plan.exceeds(device, max(scratch(problem, device)), groups, "scores take")
    return reason or too_large(problem, device)
