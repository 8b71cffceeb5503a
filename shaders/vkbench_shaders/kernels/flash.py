"""How attention is launched: split over positions for few queries, in tiles for many."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Launch, Layout, Problem, too_large
from vkbench_shaders.kernels import caches, rows

THREADS = 128
_COMBINERS = 256  # threads that combine the partitions of a row
POSITIONS = 64  # of a tile; partitions are whole tiles
STEP = 32  # numbers of a query or key at a time
_WIDE = 16  # bytes of the widest load
_EIGHT = 8  # numbers of a plain row that are read at a time
_ADDRESSES = 1 << 32  # bytes that a shader can address in a buffer

_MOST_ROWS = 8  # of a tile that is split over positions
_AT_ONCE = 512  # workgroups that keep a large GPU busy
_LEAST_SPLIT = 32  # positions of a partition
_LANES = 8
_LEAST_LANES = 4
_MOST_SHARED = 32768  # bytes of shared memory: no device has less than half of it
_SMALL = 1024  # of them beside queries and scores
_MOST_POOL = 4096  # singles: more would leave room for fewer workgroups
_TILES_FROM = 64  # rows of a group from which on tiles are faster
_TILES_AT_ONCE = 1536  # the same in tiles: enough for the last ones to leave few without work
_LEAST_PART = 256  # positions of a partition of tiles


@dataclass(frozen=True)
class Split:
    """Few queries: tiles of 1 to 8 rows, and scores of a whole partition at once."""

    rows: int  # of a tile
    part: int  # positions of a partition
    fours: int  # of a query, padded
    lanes: int  # that share the work on a position, where they can

    @property
    def pool(self) -> int:
        """Singles of shared memory for scores, and for eight sums a thread."""
        return max(self.rows * self.part, _EIGHT * THREADS)


@dataclass(frozen=True)
class Tiles:
    """Many queries: tiles that go over the positions of a partition."""

    rows: int  # of a tile
    part: int
    key_fours: int  # of padded rows
    value_fours: int

    @property
    def entry(self) -> str:
        return f"flash_tiles_{self.value_fours * 4}"


SIZES = {64: 64, 128: 64, 256: 32, 512: 16}  # numbers of a value, padded -> rows of a tile


def stage_fours(rows: int) -> int:
    """Of queries and keys that are staged in shared memory at a time."""
    return STEP // 4 * (rows + POSITIONS)


def weight_fours(rows: int) -> int:
    """Of the weights of a tile in shared memory."""
    return POSITIONS // 4 * rows


def plan(problem: Problem, device: DeviceFacts) -> Split | Tiles:
    """What the parameter `path` asks for, or what should be faster."""
    asked = problem.params["path"]
    if asked == "split" or no_tiles(problem, device):
        return split(problem, device)
    if asked == "tiles" or group_rows(problem) >= _TILES_FROM:
        return tiles(problem, device)
    return split(problem, device)


def group_rows(problem: Problem) -> int:
    """Queries of all heads that share a head of keys and values."""
    return problem.shape["q"] * problem.shape["h"] // problem.shape["g"]


def no_tiles(problem: Problem, device: DeviceFacts) -> str | None:
    """Why attention cannot be done in tiles, or None."""
    if not _widths(problem, device):
        e, has = problem.shape["e"], device.limits.get("max_shared_bytes", 0)
        return f"no tile is for values of {e} numbers and {has} bytes of shared memory"
    return _too_large_for(problem, device, tiles(problem, device))


def _widths(problem: Problem, device: DeviceFacts) -> list[int]:
    """Sizes of padded values that hold the problem's and whose tiles a device has room for."""
    has = device.limits.get("max_shared_bytes", 0)
    return [
        width
        for width, rows in SIZES.items()
        if width >= problem.shape["e"] and (stage_fours(rows) + weight_fours(rows)) * 16 <= has
    ]


def split(problem: Problem, device: DeviceFacts) -> Split:
    shape, lanes = problem.shape, _LANES if device.subgroup_size >= _LANES else _LEAST_LANES
    fours = ceil(shape["d"] / _EIGHT / lanes) * lanes * _EIGHT // 4
    room = min(device.limits.get("max_shared_bytes", 0), _MOST_SHARED) - _SMALL
    least = 4 * _EIGHT * THREADS
    tile = min(_MOST_ROWS, 1 << max(0, group_rows(problem) - 1).bit_length())
    while tile > 1 and tile * fours * 16 + least > room:
        tile //= 2
    pool = min(_MOST_POOL, max(room - tile * fours * 16, least) // 4)
    groups = shape["s"] * shape["g"] * ceil(group_rows(problem) / tile)
    part = _part(shape["n"], _AT_ONCE // max(groups, 1), _LEAST_SPLIT, pool // tile)
    return Split(tile, part, fours, lanes)


def tiles(problem: Problem, device: DeviceFacts) -> Tiles:
    shape = problem.shape
    width = _widths(problem, device)[0]
    groups = shape["s"] * shape["g"] * ceil(group_rows(problem) / SIZES[width])
    part = _part(shape["n"], _TILES_AT_ONCE // max(groups, 1), _LEAST_PART, 1 << 31)
    return Tiles(SIZES[width], part, ceil(shape["d"] / STEP) * STEP // 4, width // 4)


def _part(length: int, wanted: int, least: int, most: int) -> int:
    """Positions of a partition: about so many partitions, unless they were too small."""
    part = max(least, ceil(length / max(wanted, 1) / least) * least)
    return min(part, most // least * least)


def parts(problem: Problem, plan: Split | Tiles) -> int:
    return max(1, ceil(problem.shape["n"] / plan.part))


def padded_rows(problem: Problem, plan: Split | Tiles) -> int:
    """Rows of a group in whole tiles."""
    return ceil(group_rows(problem) / plan.rows) * plan.rows


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums and statistics of partitions; for tiles queries, keys and values as padded singles."""
    return _scratch(problem, plan(problem, device))


def _scratch(problem: Problem, plan: Split | Tiles) -> tuple[int, ...]:
    shape = problem.shape
    found = shape["s"] * shape["g"] * parts(problem, plan) * padded_rows(problem, plan)
    sums = (found * ceil(shape["e"] / _EIGHT) * _EIGHT * 4, found * 8)
    return sums if isinstance(plan, Split) else (*sums, *spread_bytes(problem, plan))


def spread_bytes(problem: Problem, plan: Tiles) -> tuple[int, ...]:
    """Of queries, keys and values as padded singles."""
    groups = problem.shape["s"] * problem.shape["g"] * 16
    length = ceil(problem.shape["n"] / POSITIONS) * POSITIONS
    queries = groups * padded_rows(problem, plan) * plan.key_fours
    return (queries, groups * length * plan.key_fours, groups * length * plan.value_fours)


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Partitions, after what they need, and what combines them."""
    chosen = plan(problem, device)
    most = min(problem.shape["q"], MOST_GROUPS)
    threads = min(_COMBINERS, device.limits["max_workgroup_invocations"])
    combine = Launch(
        groups=(most, problem.shape["h"], problem.shape["s"]),
        push=push(problem, chosen, most),
        constants={0: threads},
        entry="flash_combine",
    )
    if isinstance(chosen, Split):
        return (_split_launch(problem, chosen), combine)
    return (*tile_launches(problem, chosen, chosen.entry), combine)


def _groups(problem: Problem, plan: Split | Tiles) -> tuple[int, int, int]:
    tiles = padded_rows(problem, plan) // plan.rows
    return (tiles, parts(problem, plan), problem.shape["s"] * problem.shape["g"])


def _split_launch(problem: Problem, plan: Split) -> Launch:
    constants = (THREADS, is_wide(problem), plan.rows, plan.fours, plan.pool, plan.lanes)
    return Launch(
        groups=_groups(problem, plan),
        push=push(problem, plan, 1),
        constants=dict(enumerate(constants)),
    )


def tile_launches(problem: Problem, plan: Tiles, entry: str) -> tuple[Launch, ...]:
    """Queries, keys and values spread out, and what is done with their tiles."""
    width = max(plan.key_fours, plan.value_fours)
    units = max(padded_rows(problem, plan), problem.shape["n"]) * width
    most = min(max(1, units // (4 * THREADS)), MOST_GROUPS)
    constants = (THREADS, is_wide(problem), plan.key_fours, plan.value_fours)
    shared = {4: stage_fours(plan.rows), 5: weight_fours(plan.rows)}
    spread = Launch(
        groups=(most, problem.shape["s"] * problem.shape["g"], 3),
        push=push(problem, plan, most),
        constants=dict(enumerate(constants)),
        entry="flash_spread",
    )
    tiles = Launch(
        groups=_groups(problem, plan),
        push=push(problem, plan, 1),
        constants={**dict(enumerate(constants)), **shared},
        entry=entry,
    )
    return (spread, tiles)


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
        (*(start % _WIDE for start in starts), *(problem.shape[dim] % _EIGHT for dim in "de"))
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
    if isinstance(chosen, Split) and (reason := _too_wide(problem, device, chosen)):
        return reason
    return _too_large_for(problem, device, chosen) or too_large(problem, device)


def uneven(problem: Problem) -> str | None:
    """Why heads of queries cannot share those of keys and values, or None."""
    heads, groups = problem.shape["h"], problem.shape["g"]
    return f"{heads} heads cannot share {groups} evenly" if heads % groups else None


def _too_wide(problem: Problem, device: DeviceFacts, plan: Split) -> str | None:
    needed = plan.rows * plan.fours * 16 + plan.pool * 4 + _SMALL
    has = device.limits.get("max_shared_bytes", 0)
    if needed > has:
        d = problem.shape["d"]
        return f"heads of {d} take {needed} bytes of shared memory, the device has {has}"
    return None


def _too_large_for(problem: Problem, device: DeviceFacts, plan: Split | Tiles) -> str | None:
    """Why scratch buffers or workgroups are too many for a device, or None."""
    most = device.limits.get("max_storage_range")
    needed = max(_scratch(problem, plan))
    if most is not None and needed > most:
        return f"a scratch buffer has {needed} bytes, the device binds {most} at most"
    groups = max(*_groups(problem, plan), problem.shape["h"])
    if groups > MOST_GROUPS:
        return f"{groups} workgroups along an axis, one launch takes {MOST_GROUPS} at most"
    return None


def layout(problem: Problem, binding: str) -> Layout:
    """Where rows lie: head after head, with gaps, or beside those of the other heads."""
    shape = _shape(problem, binding)
    how = problem.params["layout"]
    if how == "strided" and len(shape) > 1:
        return rows.strided(shape, *rows.gaps(problem, binding))
    if how == "cache" and len(shape) > 2:
        batches, heads, count, width = shape
        strides = (heads * count * width, width, heads * width, 1)
        return Layout(shape=shape, strides=strides, storage=batches * heads * count * width)
    return Layout.contiguous(shape)


def _shape(problem: Problem, binding: str) -> tuple[int, ...]:
    absent = (binding == "mask" and problem.params["mask"] == "none") or (
        binding == "sinks" and problem.params["sinks"] == "no"
    )
    full = problem.full_shape(binding)
    return (1,) * len(full) if absent else full
