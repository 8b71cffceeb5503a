"""How attention is cut: into tiles of rows, and partitions of the positions."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Problem

THREADS = 128
POSITIONS = 64  # of a tile; partitions are whole tiles
STEP = 32  # numbers of a query or key at a time
EIGHT = 8  # numbers of a plain row that are read at a time

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
        return max(self.rows * self.part, EIGHT * THREADS)


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
    return too_large_for(problem, device, tiles(problem, device))


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
    fours = ceil(shape["d"] / EIGHT / lanes) * lanes * EIGHT // 4
    room = min(device.limits.get("max_shared_bytes", 0), _MOST_SHARED) - _SMALL
    least = 4 * EIGHT * THREADS
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


def scratch_bytes(problem: Problem, plan: Split | Tiles) -> tuple[int, ...]:
    """Sums and statistics of partitions; for tiles queries, keys and values as padded singles."""
    shape = problem.shape
    found = shape["s"] * shape["g"] * parts(problem, plan) * padded_rows(problem, plan)
    sums = (found * ceil(shape["e"] / EIGHT) * EIGHT * 4, found * 8)
    return sums if isinstance(plan, Split) else (*sums, *spread_bytes(problem, plan))


def spread_bytes(problem: Problem, plan: Tiles) -> tuple[int, ...]:
    """Of queries, keys and values as padded singles."""
    groups = problem.shape["s"] * problem.shape["g"] * 16
    length = ceil(problem.shape["n"] / POSITIONS) * POSITIONS
    queries = groups * padded_rows(problem, plan) * plan.key_fours
    return (queries, groups * length * plan.key_fours, groups * length * plan.value_fours)


def workgroups(problem: Problem, plan: Split | Tiles) -> tuple[int, int, int]:
    """Tiles, partitions, heads of keys in all batches."""
    tiles = padded_rows(problem, plan) // plan.rows
    return (tiles, parts(problem, plan), problem.shape["s"] * problem.shape["g"])


def too_large_for(problem: Problem, device: DeviceFacts, plan: Split | Tiles) -> str | None:
    """Why scratch buffers or workgroups are too many for a device, or None."""
    most = device.limits.get("max_storage_range")
    needed = max(scratch_bytes(problem, plan))
    if most is not None and needed > most:
        return f"a scratch buffer has {needed} bytes, the device binds {most} at most"
    groups = max(*workgroups(problem, plan), problem.shape["h"])
    if groups > MOST_GROUPS:
        return f"{groups} workgroups along an axis, one launch takes {MOST_GROUPS} at most"
    return None


def too_wide(problem: Problem, device: DeviceFacts, plan: Split) -> str | None:
    needed = plan.rows * plan.fours * 16 + plan.pool * 4 + _SMALL
    has = device.limits.get("max_shared_bytes", 0)
    if needed > has:
        d = problem.shape["d"]
        return f"heads of {d} take {needed} bytes of shared memory, the device has {has}"
    return None
