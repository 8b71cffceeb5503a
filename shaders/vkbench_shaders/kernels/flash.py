"""How attention is launched: split over positions for few queries, in tiles for many."""

from __future__ import annotations

import struct
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Launch, Layout, Problem, too_large
from vkbench_shaders.kernels import caches, rows
from vkbench_shaders.kernels.flash_plan import (
    EIGHT,
    THREADS,
    Split,
    Tiles,
    no_tiles,
    padded_rows,
    parts,
    plan,
    power_of_two,
    scratch_bytes,
    too_large_for,
    too_wide,
    workgroups,
)

_COMBINERS = 256  # threads that combine the partitions of a row, at most
_LEAST_COMBINERS = 32
_FEW_ROWS = 512  # of which several workgroups combine one
_PIECE = 16  # fours of a row, then
_SHARES = 16  # of its partitions, each added by other threads, at most
_WIDE = 16  # bytes of the widest load
_ADDRESSES = 1 << 32  # bytes that a shader can address in a buffer


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums and statistics of partitions; for tiles queries, keys and values as padded singles."""
    return scratch_bytes(problem, plan(problem, device))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Partitions, after what they need, and what combines them."""
    chosen = plan(problem, device)
    combine = _combine_launch(problem, device, chosen)
    if isinstance(chosen, Split):
        return (_split_launch(problem, chosen), combine)
    return (spread_launch(problem, chosen), _tiles_launch(problem, chosen), combine)


def _combine_launch(problem: Problem, device: DeviceFacts, plan: Split | Tiles) -> Launch:
    """Pieces of rows, whole ones where there are many: as many threads as have something to add."""
    shape = problem.shape
    fours = ceil(shape["e"] / 4)
    columns = _PIECE if shape["s"] * shape["h"] * shape["q"] <= _FEW_ROWS else fours
    most = min(shape["q"] * ceil(fours / columns), MOST_GROUPS)
    wanted = min(columns, fours) * min(parts(problem, plan), _SHARES)
    limit = min(_COMBINERS, device.limits["max_workgroup_invocations"])
    return Launch(
        groups=(most, shape["h"], shape["s"]),
        push=push(problem, plan, most),
        constants={0: min(limit, max(_LEAST_COMBINERS, power_of_two(wanted))), 2: columns},
        entry="flash_combine",
    )


def _split_launch(problem: Problem, plan: Split) -> Launch:
    constants = (THREADS, is_wide(problem), plan.rows, plan.fours, plan.pool, plan.lanes)
    return Launch(
        groups=workgroups(problem, plan),
        push=push(problem, plan, 1),
        constants=dict(enumerate(constants)),
    )


def spread_launch(problem: Problem, plan: Tiles) -> Launch:
    """Queries, keys and values spread out as padded singles."""
    width = max(plan.key_size // 4, plan.value_fours)
    units = max(padded_rows(problem, plan), problem.shape["n"]) * width
    most = min(max(1, units // (4 * THREADS)), MOST_GROUPS)
    return Launch(
        groups=(most, problem.shape["s"] * problem.shape["g"], 3),
        push=push(problem, plan, most),
        constants={**_padded(problem, plan), 0: THREADS},
        entry="flash_spread",
    )


def _tiles_launch(problem: Problem, plan: Tiles) -> Launch:
    return Launch(
        groups=workgroups(problem, plan),
        push=push(problem, plan, 1),
        constants={**_padded(problem, plan), 6: plan.stage},
        entry=plan.entry,
    )


def _padded(problem: Problem, plan: Tiles) -> dict[int, int]:
    """Constants of the shader module `flash_padded`, and what it imports."""
    sizes = (plan.key_size, plan.value_fours, plan.rows, plan.positions)
    return dict(enumerate((plan.threads, is_wide(problem), *sizes)))


def push(problem: Problem, plan: Split | Tiles, groups: int) -> bytes:
    """The shaders' push constants; `groups`: workgroups side by side."""
    sizes = [problem.shape[dim] for dim in "hgqnde"]
    places = [number for name in "kvqy" for number in _places(problem, name)]
    mask = problem.layout("mask")
    masked = (mask.offset, mask.strides[0])
    floats = (caches.scale(problem), problem.params["softcap"], problem.params["max_bias"])
    flags = (problem.params["mask"] != "none") + 2 * (problem.params["sinks"] == "yes")
    last = (plan.part, parts(problem, plan), padded_rows(problem, plan), flags, groups)
    return struct.pack("<24I3f5I", *sizes, *places, *masked, *floats, *last)


def _places(problem: Problem, binding: str) -> tuple[int, ...]:
    """Offset and strides of batches, heads and rows: in bytes for keys and values."""
    layout = problem.layout(binding)
    unit = problem.item_bytes(binding) if binding in "kv" else 1
    batch, head, row, _ = layout.strides
    return tuple(number * unit for number in (layout.offset, batch, head, row))


def is_wide(problem: Problem) -> bool:
    """Whether rows of keys and values are whole eights that begin on 16 bytes."""
    if problem.format("k").quantised:
        return True
    starts = [number for name in "kv" for number in _places(problem, name)]
    return not any(
        (*(start % _WIDE for start in starts), *(problem.shape[dim] % EIGHT for dim in "de"))
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot do it, or None."""
    if reason := uneven(problem):
        return reason
    if problem.params["path"] == "tiles" and (reason := no_tiles(problem, device)):
        return reason
    for binding in problem.kernel.bindings:
        needed = problem.layout(binding.name).storage * problem.item_bytes(binding.name)
        if needed > _ADDRESSES:
            return f"{binding.name} has {needed} bytes, the kernel reaches {_ADDRESSES}"
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
        return rows.strided(shape, *rows.gaps(problem, binding))
    if how == "cache" and len(shape) > 2:
        batches, heads, count, width = shape
        strides = (heads * count * width, width, heads * width, 1)
        return Layout(shape=shape, strides=strides, storage=batches * heads * count * width)
    return Layout.contiguous(shape)
