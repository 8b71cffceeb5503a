"""How attention is cut: into tiles of rows, and partitions of the positions."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import MOST_GROUPS, Problem, Settings
from vkbench_shaders.kernels.shared.workgroups import power_of_two
from vkbench_shaders.tuning.thresholds import Attention, thresholds

THREADS = 128  # of a workgroup, unless a plan has others
EIGHT = 8  # numbers of a plain row that are read at a time

KEY_STEP = 16  # queries and keys are padded to whole ones

_MOST_ROWS = 8  # of a tile that is split over positions
_DEPTH = 4  # positions that a thread reads at a time
_LANES = 8
_LEAST_LANES = 4
_SHARE = 4  # eights of a value that a workgroup makes at least: a block of q8_1
_MOST_SHARED = 32768  # bytes of shared memory: no device has less than half of it
_SMALL = 1024  # of them beside queries and scores
_ROUNDING = 8192  # of them where results are rounded
_WHOLE_THREADS = 512  # of a workgroup that makes a whole row at once
_WHOLE_VALUES = 512  # numbers of a value


@dataclass(frozen=True)
class Split:
    """Few queries: tiles of 1 to 8 rows, and scores of a whole partition at once."""

    rows: int  # of a tile
    part: int  # positions of a partition
    fours: int  # of a query, padded
    lanes: int  # that share the work on a position, where they can
    threads: int = THREADS  # of a workgroup
    is_whole: bool = False  # whether one row's partition has all positions, and makes the result
    shares: int = 1  # workgroups that share a row's values, where it has all positions
    is_wide: bool = False  # whether values are summed in several rounds, which all need the scores

    @property
    def pool(self) -> int:
        """Singles of shared memory for scores, and for eight sums a thread."""
        scores, sums = self.rows * self.part, EIGHT * self.threads
        return scores + sums if self.is_wide else max(scores, sums)

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        rows = _WHOLE_VALUES * 4 + _ROUNDING if self.is_whole else 0
        return self.rows * self.fours * 16 + self.pool * 4 + self.threads * 4 + rows + _SMALL


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a workgroup of `flash_tiles` makes: see there."""

    entry: str
    m: int  # fours of rows that a thread makes
    n: int  # fours of positions
    e: int  # fours of values
    patches: int  # of 32 threads, side by side
    step: int = 16  # numbers of a query or key at a time
    threads: int = THREADS

    @property
    def rows(self) -> int:
        return 16 * self.m * self.threads // 32 // self.patches

    @property
    def positions(self) -> int:
        return 32 * self.n * self.patches

    @property
    def width(self) -> int:
        """Numbers of a value, padded."""
        return 32 * self.e * self.patches

    @property
    def stage(self) -> int:
        """Fours of shared memory: two steps of queries and keys, or weights and values."""
        steps = self.step * (self.rows + self.positions) // 2
        return max(steps, 32 * self.patches * self.rows // 4 + _VALUES)


_VALUES = 512  # fours of values in shared memory
BLOCKS = (  # the first one that fits is taken
    Block(entry="flash_tiles_64", m=2, n=2, e=2, patches=1),
    Block(entry="flash_tiles_64", m=2, n=2, e=2, patches=1, threads=64),
    Block(entry="flash_tiles_96", m=1, n=2, e=3, patches=1),
    Block(entry="flash_tiles_128", m=2, n=1, e=2, patches=2),
    Block(entry="flash_tiles_128", m=2, n=1, e=2, patches=2, threads=64),
    Block(entry="flash_tiles_256", m=1, n=2, e=4, patches=2),
    Block(entry="flash_tiles_256_narrow", m=1, n=1, e=4, patches=2, threads=64),
    Block(entry="flash_tiles_512", m=1, n=1, e=4, patches=4, step=8),
)
ENTRIES = tuple(dict.fromkeys(block.entry for block in BLOCKS))


@dataclass(frozen=True)
class Tiles:
    """Many queries: tiles that go over the positions of a partition."""

    threads: int
    rows: int  # of a tile
    positions: int  # of a tile; partitions are whole tiles
    part: int
    key_size: int  # of padded rows
    value_fours: int
    entry: str = ""  # of `flash_tiles`, and the shared memory that it takes
    stage: int = 0


@dataclass(frozen=True, kw_only=True)
class Few:
    """Few queries on matrix units: a matrix's worth of rows, all scores of a partition at once."""

    rows: int  # of a tile
    part: int
    steps: int  # of a partition
    threads: int
    entry: str
    stage: int  # uint4s of shared memory
    shares: int = 1  # workgroups that share a tile's values
    is_short: bool = False  # whether one launch makes the results, of `flash_short`
    joins: bool = False  # whether the last workgroup of a tile joins its partitions


Cut = Split | Tiles | Few


def plan(problem: Problem, device: DeviceFacts) -> Split | Tiles:
    """What the parameter `path` asks for, or what should be faster."""
    path = problem.params["path"]
    is_many = group_rows(problem) >= thresholds(device, Attention).tiles_from_rows
    has_choice = path in ("auto", "tiles") and not no_tiles(problem, device)
    if has_choice and (path == "tiles" or is_many):
        return tiles(problem, device)
    return split(problem, device)


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Values of the parameter `path`; `joined` and `short` need matrix units: here they split."""
    if (path := problem.params["path"]) in ("joined", "short"):
        return [{"path": path}]
    usual = "split" if isinstance(plan(problem, device), Split) else "tiles"
    ways = ("split",) if no_tiles(problem, device) else ("split", "tiles")
    return [{"path": way} for way in sorted(ways, key=lambda way: way != usual)]


def group_rows(problem: Problem) -> int:
    """Queries of all heads that share a head of keys and values."""
    return problem.shape["q"] * problem.shape["h"] // problem.shape["g"]


def no_tiles(problem: Problem, device: DeviceFacts) -> str | None:
    """Why attention cannot be done in tiles, or None."""
    if block(problem, device) is None:
        e, has = problem.shape["e"], device.limits.get("max_shared_bytes", 0)
        return f"no tile is for values of {e} numbers and {has} bytes of shared memory"
    return too_large_for(problem, device, tiles(problem, device))


def block(problem: Problem, device: DeviceFacts) -> Block | None:
    """The tile whose padded values hold the problem's, and for which a device has room."""
    has = device.limits.get("max_shared_bytes", 0)
    holding = (block for block in BLOCKS if block.width >= problem.shape["e"])
    return next((block for block in holding if block.stage * 16 <= has), None)


def split(problem: Problem, device: DeviceFacts) -> Split:
    """Tiles of as many rows as there are, or fit, in as many partitions as keep a device busy."""
    shape, lanes = problem.shape, _LANES if device.subgroup_size >= _LANES else _LEAST_LANES
    fours = ceil(shape["d"] / EIGHT / lanes) * lanes * EIGHT // 4
    if (whole := _plan_whole_rows(problem, device, fours, lanes)) is not None:
        return whole
    limits = thresholds(device, Attention)
    room = min(device.limits.get("max_shared_bytes", 0), _MOST_SHARED) - _SMALL
    sums = 4 * EIGHT * THREADS
    is_wide = shape["e"] > EIGHT * THREADS
    least = 2 * sums if is_wide else sums
    tile = min(_MOST_ROWS, power_of_two(group_rows(problem)))
    while tile > 1 and tile * fours * 16 + least > room:
        tile //= 2
    pool = min(limits.split_scores, max(room - tile * fours * 16, least) // 4)
    scores = pool - sums // 4 if is_wide else pool
    groups = shape["s"] * shape["g"] * ceil(group_rows(problem) / tile)
    count = limits.split_workgroups // max(groups, 1)
    part = partition(shape["n"], count, _least_split(limits, shape["d"]), scores // tile)
    lanes = _more_lanes(device, fours, lanes, THREADS, part)
    return Split(tile, part, fours, lanes, is_wide=is_wide)


def _plan_whole_rows(problem: Problem, device: DeviceFacts, fours: int, lanes: int) -> Split | None:
    """One launch for all positions where they are few, and so are the queries: it saves another."""
    shape, part = problem.shape, max(1, problem.shape["n"])
    if (
        part > thresholds(device, Attention).whole_positions
        or (group_rows(problem) > _MOST_ROWS and not _is_short(problem, device))
        or shape["e"] > _WHOLE_VALUES
        or problem.params["sinks"] == "yes"
    ):
        return None
    lanes = _more_lanes(device, fours, lanes, _WHOLE_THREADS, part)
    shares = _shares(problem, device)
    cut = Split(1, part, fours, lanes, _WHOLE_THREADS, is_whole=True, shares=shares)
    has_threads = device.limits.get("max_workgroup_invocations", 0) >= _WHOLE_THREADS
    fits = device.limits.get("max_shared_bytes", 0) >= cut.shared
    return cut if has_threads and fits else None


def is_whole(problem: Problem, device: DeviceFacts) -> bool:
    """Whether workgroups that make whole rows are faster than matrices for few queries."""
    return _is_short(problem, device) and split(problem, device).is_whole


def _is_short(problem: Problem, device: DeviceFacts) -> bool:
    """Whether positions are so few that each row may read all keys and values by itself."""
    shape, limits = problem.shape, thresholds(device, Attention)
    numbers = shape["n"] * (shape["d"] + shape["e"])
    in_blocks = problem.format("k").quantised
    is_short = numbers <= (limits.short_numbers_in_blocks if in_blocks else limits.short_numbers)
    has_units = _rows(problem) <= device.compute_units
    return is_short and has_units and shape["n"] <= limits.short_positions


def _rows(problem: Problem) -> int:
    """Queries of all heads and batches."""
    return prod(problem.shape[dim] for dim in "shq")


def _shares(problem: Problem, device: DeviceFacts) -> int:
    """As many workgroups as a device has units for, whose threads all read values at once."""
    width, shares = ceil(problem.shape["e"] / EIGHT), 1
    while (
        _rows(problem) * shares * 2 <= device.compute_units
        and width % (shares * 2 * _SHARE) == 0
        and problem.shape["n"] * width // (shares * 2) >= _WHOLE_THREADS * _DEPTH
    ):
        shares *= 2
    return shares


def _more_lanes(device: DeviceFacts, fours: int, lanes: int, threads: int, part: int) -> int:
    """As many lanes a position as leave no thread without one."""
    while (
        lanes * 2 <= device.subgroup_size
        and fours // 2 % (lanes * 2) == 0
        and threads // lanes * _DEPTH > part
    ):
        lanes *= 2
    return lanes


def _least_split(limits: Attention, d: int) -> int:
    """Positions of a partition at least: what all threads read at once of keys."""
    least, most = limits.split_positions
    return min(most, max(least, power_of_two(THREADS * _DEPTH // ceil(d / EIGHT))))


def tiles(problem: Problem, device: DeviceFacts) -> Tiles:
    """Tiles of the block that fits, in as many partitions as keep a device busy."""
    shape, chosen = problem.shape, block(problem, device) or BLOCKS[-1]
    groups = shape["s"] * shape["g"] * ceil(group_rows(problem) / chosen.rows)
    limits = thresholds(device, Attention)
    count = limits.tiles_workgroups // max(groups, 1)
    part = partition(shape["n"], count, limits.tiles_positions)
    return Tiles(
        threads=chosen.threads,
        rows=chosen.rows,
        positions=chosen.positions,
        part=part,
        key_size=ceil(shape["d"] / KEY_STEP) * KEY_STEP,
        value_fours=chosen.width // 4,
        entry=chosen.entry,
        stage=chosen.stage,
    )


def partition(length: int, count: int, least: int, most: int = 1 << 31) -> int:
    """Positions of a partition, of about `count`, unless these were too small."""
    part = max(least, ceil(length / max(count, 1) / least) * least)
    return min(part, most // least * least)


def parts(problem: Problem, plan: Cut) -> int:
    return max(1, ceil(problem.shape["n"] / plan.part))


def padded_rows(problem: Problem, plan: Cut) -> int:
    """Rows of a group in whole tiles."""
    return ceil(group_rows(problem) / plan.rows) * plan.rows


def scratch_bytes(problem: Problem, plan: Cut) -> tuple[int, ...]:
    """Sums and statistics of partitions; for tiles queries, keys and values as padded singles."""
    shape = problem.shape
    rows = shape["s"] * shape["g"] * parts(problem, plan) * padded_rows(problem, plan)
    sums = (rows * ceil(shape["e"] / EIGHT) * EIGHT * 4, rows * 8)
    return (*sums, *spread_bytes(problem, plan)) if isinstance(plan, Tiles) else sums


def spread_bytes(problem: Problem, plan: Tiles) -> tuple[int, ...]:
    """Bytes of queries, keys and values as padded singles."""
    groups = problem.shape["s"] * problem.shape["g"] * 4
    length = ceil(problem.shape["n"] / plan.positions) * plan.positions
    queries = groups * padded_rows(problem, plan) * plan.key_size
    return (queries, groups * length * plan.key_size, groups * length * plan.value_fours * 4)


def workgroups(problem: Problem, plan: Cut) -> tuple[int, int, int]:
    """Tiles, partitions, heads of keys in all batches."""
    tiles = padded_rows(problem, plan) // plan.rows
    shares = 1 if isinstance(plan, Tiles) else plan.shares
    return (tiles * shares, parts(problem, plan), problem.shape["s"] * problem.shape["g"])


def too_large_for(problem: Problem, device: DeviceFacts, plan: Split | Tiles) -> str | None:
    """Why scratch buffers or workgroups are too many for a device, or None."""
    groups = (*workgroups(problem, plan), problem.shape["h"])
    return exceeds(device, max(scratch_bytes(problem, plan)), max(groups))


def exceeds(
    device: DeviceFacts, scratch: int, groups: int, what: str = "a scratch buffer has"
) -> str | None:
    """Why a device has no such scratch buffer, or not so many workgroups along an axis, or None."""
    most = device.limits.get("max_storage_range")
    if most is not None and scratch > most:
        return f"{what} {scratch} bytes, the device binds {most} at most"
    if groups > MOST_GROUPS:
        return f"{groups} workgroups along an axis, one launch takes {MOST_GROUPS} at most"
    return None


def too_wide(problem: Problem, device: DeviceFacts, plan: Split) -> str | None:
    needed = plan.shared
    has = device.limits.get("max_shared_bytes", 0)
    if needed > has:
        d = problem.shape["d"]
        return f"heads of {d} take {needed} bytes of shared memory, the device has {has}"
    return None
