"""How attention is launched: split over positions for few queries, in tiles for many."""

from __future__ import annotations

from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Launch, Layout, Problem, Push, too_large
from vkbench_shaders.kernels.attention import caches
from vkbench_shaders.kernels.attention.flash_plan import (
    EIGHT,
    THREADS,
    Cut,
    Split,
    Tiles,
    no_tiles,
    padded_rows,
    parts,
    plan,
    scratch_bytes,
    too_large_for,
    too_wide,
    workgroups,
)
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.limits import out_of_reach
from vkbench_shaders.launch import power_of_two
from vkbench_shaders.tuning.thresholds import Attention, thresholds

_COMBINERS = 256  # threads that combine the partitions of a row, at most
_LEAST_COMBINERS = 32
_PIECE = 16  # fours of a row, then
_SHARES = 16  # of its partitions, which different threads add, at most
_WIDE = 16  # bytes of the widest load


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums and statistics of partitions; for tiles queries, keys and values as padded singles."""
    return scratch_bytes(problem, plan(problem, device))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Partitions, after what they need, and what combines them."""
    chosen = plan(problem, device)
    if isinstance(chosen, Split) and chosen.is_whole:
        return (_split_launch(problem, chosen),)
    combine = combine_launch(problem, device, chosen)
    if isinstance(chosen, Split):
        return (_split_launch(problem, chosen), combine)
    return (spread_launch(problem, chosen), _tiles_launch(problem, chosen), combine)


def combine_launch(problem: Problem, device: DeviceFacts, plan: Cut) -> Launch:
    """Pieces of rows, whole ones where there are many: as many threads as have something to add."""
    shape = problem.shape
    fours = ceil(shape["e"] / 4)
    few = thresholds(device, Attention).combined_in_pieces
    columns = _PIECE if shape["s"] * shape["h"] * shape["q"] <= few else fours
    most = min(shape["q"] * ceil(fours / columns), MOST_GROUPS)
    terms = min(columns, fours) * min(parts(problem, plan), _SHARES)
    limit = min(_COMBINERS, device.limits["max_workgroup_invocations"])
    return Launch(
        groups=(most, shape["h"], shape["s"]),
        push=push(problem, plan, most),
        constants={
            "THREADS": min(limit, max(_LEAST_COMBINERS, power_of_two(terms))),
            "COLUMNS": columns,
        },
        entry="flash_combine",
    )


def _split_launch(problem: Problem, plan: Split) -> Launch:
    return Launch(
        groups=workgroups(problem, plan),
        push=push(problem, plan, 1),
        constants={
            "THREADS": plan.threads,
            "WHOLE": plan.is_whole,
            "SHARES": plan.shares,
            "WIDE": is_wide(problem),
            "ROWS": plan.rows,
            "FOURS": plan.fours,
            "POOL": plan.pool,
            "LANES": plan.lanes,
        },
    )


def spread_launch(
    problem: Problem, plan: Tiles, entry: str = "flash_spread", arrays: int = 3
) -> Launch:
    """Keys, values and queries in padded tiles, as many of these arrays as the entry writes."""
    width = max(plan.key_size // 4, plan.value_fours)
    units = max(padded_rows(problem, plan), problem.shape["n"]) * width
    most = min(max(1, units // (4 * THREADS)), MOST_GROUPS)
    return Launch(
        groups=(most, problem.shape["s"] * problem.shape["g"], arrays),
        push=push(problem, plan, most),
        constants={**padded_constants(problem, plan), "THREADS": THREADS},
        entry=entry,
    )


def _tiles_launch(problem: Problem, plan: Tiles) -> Launch:
    return Launch(
        groups=workgroups(problem, plan),
        push=push(problem, plan, 1),
        constants={**padded_constants(problem, plan), "STAGE": plan.stage},
        entry=plan.entry,
    )


def padded_constants(problem: Problem, plan: Tiles) -> dict[str, int]:
    """Specialisation constants of the shader module `flash_workgroup`, and of what it imports."""
    return {
        "THREADS": plan.threads,
        "WIDE": is_wide(problem),
        "KEY_SIZE": plan.key_size,
        "VALUE_FOURS": plan.value_fours,
        "TILE_ROWS": plan.rows,
        "TILE_LENGTH": plan.positions,
    }


def push(problem: Problem, plan: Cut, groups: int) -> Push:
    """The shaders' push constants; `groups`: workgroups side by side."""
    shape, mask = problem.shape, problem.layout("mask")
    return {
        "heads": shape["h"],
        "groups": shape["g"],
        "queries": shape["q"],
        "length": shape["n"],
        "key_size": shape["d"],
        "value_size": shape["e"],
        **{name: _places(problem, name) for name in "kvqy"},
        "mask_offset": mask.offset,
        "mask_stride": mask.strides[0],
        "scale": caches.scale(problem),
        "cap": float(problem.params["softcap"]),
        "max_bias": float(problem.params["max_bias"]),
        "part": plan.part,
        "parts": parts(problem, plan),
        "rows": padded_rows(problem, plan),
        "flags": (problem.params["mask"] != "none") + 2 * (problem.params["sinks"] == "yes"),
        "groups_x": groups,
    }


def _places(problem: Problem, binding: str) -> dict[str, int]:
    """The shaders' Places: in bytes for keys and values."""
    layout = problem.layout(binding)
    unit = problem.item_bytes(binding) if binding in "kv" else 1
    batch, head, row, _ = layout.strides
    numbers = {"offset": layout.offset, "batch": batch, "head": head, "row": row}
    return {name: number * unit for name, number in numbers.items()}


def is_wide(problem: Problem) -> bool:
    """Whether rows of what has no blocks, of keys and values, are whole eights at 16 bytes."""
    sizes_by_name = {"k": problem.shape["d"], "v": problem.shape["e"]}
    plain = [name for name in sizes_by_name if not problem.format(name).quantised]
    starts = [number for name in plain for number in _places(problem, name).values()]
    sizes = [sizes_by_name[name] for name in plain]
    return not any((*(start % _WIDE for start in starts), *(size % EIGHT for size in sizes)))


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot do it, or None."""
    if reason := uneven(problem):
        return reason
    if problem.params["path"] == "tiles" and (reason := no_tiles(problem, device)):
        return reason
    if reason := out_of_reach(problem):
        return reason
    chosen = plan(problem, device)
    if isinstance(chosen, Split) and (reason := too_wide(problem, device, chosen)):
        return reason
    return too_large_for(problem, device, chosen) or too_large(problem, device)


def uneven(problem: Problem) -> str | None:
    """Why heads of queries cannot share those of keys and values, or None."""
    heads, groups = problem.shape["h"], problem.shape["g"]
    return f"{heads} heads cannot share {groups} evenly" if heads % groups else None


def layout(problem: Problem, binding: str) -> Layout:
    """Where rows lie: head after head, with gaps, or beside those of the other heads."""
    shape = problem.full_shape(binding)
    how = problem.params["layout"]
    if how == "strided" and len(shape) > 1:
        return Layout.with_gaps(shape, *rows.gaps(problem, binding))
    if how == "cache" and len(shape) > 2:
        batches, heads, count, width = shape
        strides = (heads * count * width, width, heads * width, 1)
        return Layout(shape=shape, strides=strides, storage=batches * heads * count * width)
    return Layout.contiguous(shape)
