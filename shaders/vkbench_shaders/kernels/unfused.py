"""How attention is launched with its scores in memory: a stage after the other."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Launch, Problem, too_large
from vkbench_shaders.kernels import flash, flash_plan

_ROWS = 64  # of a tile of scores


def plan(problem: Problem, device: DeviceFacts) -> flash_plan.Tiles:
    """Rows in tiles of scores, all positions in one partition."""
    length = ceil(problem.shape["n"] / flash_plan.POSITIONS) * flash_plan.POSITIONS
    return replace(
        flash_plan.tiles(problem, device), rows=_ROWS, part=max(length, flash_plan.POSITIONS)
    )


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Scores, nothing, then queries, keys and values as padded singles."""
    chosen = plan(problem, device)
    groups = problem.shape["s"] * problem.shape["g"]
    scores = groups * flash_plan.padded_rows(problem, chosen) * chosen.part * 4
    return (scores, 0, *flash_plan.spread_bytes(problem, chosen))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    chosen, shape = plan(problem, device), problem.shape
    rows, groups = flash_plan.padded_rows(problem, chosen), shape["s"] * shape["g"]
    spread, scores = flash.tile_launches(problem, chosen, "")
    most = min(shape["q"], MOST_GROUPS)
    weights = replace(
        scores,
        groups=(most, shape["h"], shape["s"]),
        push=flash.push(problem, chosen, most),
        entry="sdpa_weights",
    )
    width = chosen.value_fours * 4
    tile = flash_plan.SIZES[width]
    values = replace(
        scores,
        groups=(rows // tile, 1, groups),
        constants={
            **scores.constants,
            4: flash_plan.stage_fours(tile),
            5: flash_plan.weight_fours(tile),
        },
        entry=f"sdpa_values_{width}",
    )
    tiles = ceil(shape["n"] / flash_plan.POSITIONS)
    scores = replace(scores, groups=(rows // _ROWS, tiles, groups))
    return (spread, scores, weights, values)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot do it, or None."""
    if reason := flash.uneven(problem) or flash_plan.no_tiles(problem, device):
        return reason
    most, needed = device.limits.get("max_storage_range"), max(scratch(problem, device))
    if most is not None and needed > most:
        return f"scores take {needed} bytes, the device binds {most} at most"
    return too_large(problem, device)
