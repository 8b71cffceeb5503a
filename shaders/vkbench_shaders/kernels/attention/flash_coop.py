"""How attention of many queries is launched on cooperative matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Arguments,
    Launch,
    Problem,
    Stage,
    Variant,
    too_large,
)
from vkbench_shaders.kernels.attention import caches, flash
from vkbench_shaders.kernels.attention.flash_plan import (
    EIGHT,
    THREADS,
    TILES_FROM,
    Tiles,
    group_rows,
    padded_rows,
    partition,
    parts,
    workgroups,
)

_FEWEST = 64  # workgroups, or as many as the device has compute units
_LEAST_PART = 256  # positions of a partition
_SCATTERED = 8 * (4 + 2)  # bytes for each thread's elements of sums and of left factors
_NOTHING = 16  # bytes of a buffer that is not used
_SEEN_POSITIONS = 128  # that a workgroup of `flash_seen` sorts


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a workgroup makes, in an entry point of `flash_coop`."""

    entry: str
    keys: int  # numbers of a query or key, padded
    values: int  # numbers of a value that it makes at a time
    blocks: int  # matrices' worth of rows that a subgroup has
    step: int  # matrices' worth of positions
    kept: bool = True  # whether queries stay in registers
    is_plain: bool = False  # whether it has no registers left for a mask or a cap
    is_whole: bool = False  # whether it takes whole tiles of one head only: see `_fits_whole`


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """A size of cooperative matrices."""

    feature: str  # of devices that have it
    side: int  # rows and columns
    lanes: int  # of a subgroup: each has 8 elements of a matrix
    subgroups: int  # of a workgroup
    blocks: tuple[Block, ...]  # the first one that fits is taken

    def rows(self, block: Block) -> int:
        """Of a tile."""
        return self.subgroups * block.blocks * self.side

    def positions(self, block: Block) -> int:
        """Of a step."""
        return block.step * self.side

    def stage(self, block: Block) -> int:
        """Uint4s of shared memory: for a step, or a matrix of results for each subgroup."""
        step = self.positions(block) * ((block.keys + block.values) // EIGHT + 2)
        return max(step, self.subgroups * self.side * self.side // 4)


_LARGE = Matrices(
    feature="matrix_f16_f32",
    side=16,
    lanes=32,
    subgroups=8,
    blocks=(
        Block(entry="flash_whole_64", keys=64, values=64, blocks=2, step=4, is_whole=True),
        Block(
            entry="flash_whole_128_plain",
            keys=128,
            values=128,
            blocks=2,
            step=2,
            is_plain=True,
            is_whole=True,
        ),
        Block(entry="flash_whole_128", keys=128, values=128, blocks=1, step=4, is_whole=True),
        Block(entry="flash_whole_256", keys=256, values=256, blocks=1, step=1, is_whole=True),
        Block(entry="flash_coop_64", keys=64, values=64, blocks=2, step=4),
        Block(entry="flash_coop_80", keys=80, values=80, blocks=2, step=2),
        Block(entry="flash_coop_128_plain", keys=128, values=128, blocks=2, step=2, is_plain=True),
        Block(entry="flash_coop_128", keys=128, values=128, blocks=1, step=4),
        Block(entry="flash_coop_256", keys=256, values=256, blocks=1, step=1),
        Block(entry="flash_coop_576", keys=576, values=256, blocks=1, step=1, kept=False),
    ),
)
# 8 x 8 x 8 is what Mesa's lavapipe has. Its compiler takes minutes for larger blocks.
_SMALL = Matrices(
    feature="matrix_f16_f32_8x8x8",
    side=8,
    lanes=8,
    subgroups=4,
    blocks=(
        Block(entry="flash_whole_64_small", keys=64, values=64, blocks=1, step=1, is_whole=True),
        Block(entry="flash_coop_64_small", keys=64, values=64, blocks=1, step=2),
        Block(entry="flash_coop_80_small", keys=80, values=80, blocks=2, step=1),
        Block(entry="flash_coop_128_small", keys=128, values=128, blocks=1, step=1),
        Block(entry="flash_coop_256_small", keys=256, values=256, blocks=1, step=1),
        Block(entry="flash_coop_576_small", keys=576, values=256, blocks=1, step=1, kept=False),
    ),
)


_SIZES = (_LARGE, _SMALL)  # the best first


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Tiles, and the sizes that follow from the matrices."""

    tiles: Tiles
    block: Block

    @property
    def chunks(self) -> int:
        """Workgroups that share the values of a tile."""
        return self.tiles.value_fours * 4 // self.block.values


def _matrices(device: DeviceFacts) -> Matrices:
    """The size that a device has; the last one also stands for none."""
    return next((size for size in _SIZES if size.feature in device.features), _SIZES[-1])


def plan(problem: Problem, device: DeviceFacts) -> Plan:
    """The smallest block that holds a key, in as many partitions as keep a device busy."""
    shape, matrices = problem.shape, _matrices(device)
    plain = not (_is_masked(problem) or _is_capped(problem))
    fitting = (
        b
        for b in matrices.blocks
        if (_fits_whole(problem, device, matrices, b) if b.is_whole else b.keys >= shape["d"])
        and plain >= b.is_plain
    )
    block = next(fitting, matrices.blocks[-1])
    rows = matrices.rows(block)
    chunks = max(1, ceil(shape["e"] / block.values))
    groups = shape["s"] * shape["g"] * ceil(group_rows(problem) / rows) * chunks
    threads = matrices.subgroups * matrices.lanes
    tiles = Tiles(
        threads=threads,
        rows=rows,
        positions=matrices.positions(block),
        part=_part(problem, device, groups),
        key_size=block.keys,
        value_fours=chunks * block.values // 4,
        entry=block.entry,
        stage=matrices.stage(block),
    )
    return Plan(tiles=tiles, block=block)


def _part(problem: Problem, device: DeviceFacts, groups: int) -> int:
    """Positions of a partition, where so many workgroups would take one each."""
    wanted = max(_FEWEST, device.compute_units)
    return partition(problem.shape["n"], wanted // max(groups, 1), _LEAST_PART)


def _fits_whole(problem: Problem, device: DeviceFacts, matrices: Matrices, block: Block) -> bool:
    """Whether all tiles and steps are whole, there are no sinks, and tiles are enough."""
    shape, rows = problem.shape, matrices.rows(block)
    groups = shape["s"] * shape["h"] * shape["q"] // rows
    y, mask = problem.layout("y"), problem.layout("mask")
    # matrices are stored by rows that begin at 16 bytes, a mask is read in fours
    places = [
        y.offset,
        *y.strides[:3],
        *((mask.offset, mask.strides[0]) if _is_masked(problem) else ()),
    ]
    return (
        (shape["d"], shape["e"]) == (block.keys, block.values)
        and (shape["q"] % rows, shape["n"] % matrices.positions(block)) == (0, 0)
        and (problem.types["k"] != "f16" or (flash.is_wide(problem) and _has_no_gaps(problem)))
        and problem.params["sinks"] == "no"
        and caches.scale(problem) > 0
        and all(number % 4 == 0 for number in places)
        and _part(problem, device, groups) >= shape["n"]
    )


def _is_direct(problem: Problem, chosen: Plan) -> bool:
    """Whether all is used as it is stored."""
    shape, tiles = problem.shape, chosen.tiles
    return (
        chosen.block.kept
        and problem.types["k"] == "f16"
        and flash.is_wide(problem)
        and (shape["d"], shape["e"]) == (tiles.key_size, tiles.value_fours * 4)
        and shape["n"] % tiles.positions == 0
    )


def _is_tight(problem: Problem, chosen: Plan) -> bool:
    """Whether rows of keys, and of the values that a workgroup makes, follow without gaps."""
    if not _is_direct(problem, chosen):
        return chosen.chunks == 1
    return _has_no_gaps(problem)


def _has_no_gaps(problem: Problem) -> bool:
    """Whether rows of keys and of values follow as they are stored."""
    rows = [problem.layout(name).strides[2] for name in "kv"]
    return rows == [problem.shape["d"], problem.shape["e"]]


def _scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums and statistics of partitions; queries, keys and values as halves; what masks hide."""
    chosen, shape = plan(problem, device), problem.shape
    tiles = chosen.tiles
    rows, count = padded_rows(problem, tiles), parts(problem, tiles)
    groups = shape["s"] * shape["g"]
    found = groups * count * rows if count > 1 else 0
    steps = ceil(shape["n"] / tiles.positions)
    length = 0 if _is_direct(problem, chosen) else steps * tiles.positions
    sizes = (
        found * ceil(shape["e"] / EIGHT) * EIGHT * 4,
        found * 8,
        0 if chosen.block.kept else groups * rows * tiles.key_size * 2,
        groups * length * tiles.key_size * 2,
        groups * length * tiles.value_fours * 8,
        rows // tiles.rows * steps * 4 if _is_masked(problem) else 0,
    )
    return tuple(size or _NOTHING for size in sizes)


def _is_masked(problem: Problem) -> bool:
    return problem.params["mask"] != "none"


def _is_capped(problem: Problem) -> bool:
    return bool(problem.params["softcap"])


def _launches(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    chosen = plan(problem, device)
    tiles = chosen.tiles
    found = []
    if not _is_direct(problem, chosen):
        found.append(_halves_launch(problem, chosen))
    if _is_masked(problem):
        found.append(_seen_launch(problem, chosen))
    found.append(_coop_launch(problem, chosen))
    if parts(problem, tiles) > 1:
        found.append(flash.combine_launch(problem, device, tiles))
    return tuple(found)


def _halves_launch(problem: Problem, chosen: Plan) -> Launch:
    """Keys and values as padded halves, and where they are not kept queries."""
    tiles, arrays = chosen.tiles, 2 if chosen.block.kept else 3
    width = max(tiles.key_size // 4, tiles.value_fours)
    units = max(padded_rows(problem, tiles), problem.shape["n"]) * width
    most = min(max(1, units // (4 * THREADS)), MOST_GROUPS)
    return Launch(
        groups=(most, problem.shape["s"] * problem.shape["g"], arrays),
        push=flash.push(problem, tiles, most),
        constants={**flash.padded_constants(problem, tiles), "THREADS": THREADS},
        entry="flash_halves",
    )


def _seen_launch(problem: Problem, chosen: Plan) -> Launch:
    tiles, is_whole = chosen.tiles, chosen.block.is_whole
    rows = problem.shape["q"] if is_whole else padded_rows(problem, tiles)
    across = max(1, ceil(problem.shape["n"] / _SEEN_POSITIONS))
    return Launch(
        groups=(across, rows // tiles.rows, 1),
        push=flash.push(problem, tiles, across),
        constants={
            **flash.padded_constants(problem, tiles),
            "THREADS": 2 * THREADS,
            "ONE_HEAD": is_whole,
        },
        entry="flash_seen",
    )


def _coop_launch(problem: Problem, chosen: Plan) -> Launch:
    tiles = chosen.tiles
    across, count, groups = workgroups(problem, tiles)
    across *= chosen.chunks
    if chosen.block.is_whole:  # a workgroup has rows of one head
        across, groups = problem.shape["q"] // tiles.rows, problem.shape["s"] * problem.shape["h"]
    masked, mask = _is_masked(problem), problem.layout("mask")
    return Launch(
        groups=(groups, count, across) if masked else (across, count, groups),
        push=flash.push(problem, tiles, 1),
        constants={
            **flash.padded_constants(problem, tiles),
            "STAGE": tiles.stage,
            "DIRECT": _is_direct(problem, chosen),
            "TIGHT": _is_tight(problem, chosen),
            "WHOLE": parts(problem, tiles) == 1,
            "MASKED": masked,
            "CAPPED": _is_capped(problem),
            "UNEVEN": problem.shape["n"] % tiles.positions != 0,
            "MASK_PAIRS": mask.offset % 2 == 0 and mask.strides[0] % 2 == 0,
        },
        entry=tiles.entry,
    )


def _refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot do it, or None."""
    if reason := flash.uneven(problem):
        return reason
    if problem.params["path"] == "split":
        return "path=split is for code paths without matrices"
    matrices = _matrices(device)
    if matrices.feature not in device.features:
        return f"needs {' or '.join(size.feature for size in _SIZES)}, {device.name} has neither"
    if device.subgroup_size != matrices.lanes:
        return f"is for subgroups of {matrices.lanes}, the device has {device.subgroup_size}"
    if problem.shape["d"] > (most_keys := matrices.blocks[-1].keys):
        return f"is for keys of up to {most_keys} numbers"
    return _too_large(problem, device) or flash.out_of_reach(problem) or too_large(problem, device)


def _too_large(problem: Problem, device: DeviceFacts) -> str | None:
    tiles, limits = plan(problem, device).tiles, device.limits
    # beside the stage what is needed where the order of elements is not known
    needed, has = tiles.stage * 16 + tiles.threads * _SCATTERED, limits.get("max_shared_bytes", 0)
    if needed > has:
        return f"takes {needed} bytes of shared memory, the device has {has}"
    most, largest = limits.get("max_storage_range"), max(_scratch(problem, device))
    if most is not None and largest > most:
        return f"a scratch buffer has {largest} bytes, the device binds {most} at most"
    groups = max(max(each.groups) for each in _launches(problem, device))
    if groups > MOST_GROUPS:
        return f"{groups} workgroups along an axis, one launch takes {MOST_GROUPS} at most"
    return None


def _suits(problem: Problem, device: DeviceFacts) -> bool:
    """Prompts: few queries are bound by memory, and matrices of 8 x 8 are those of CPU drivers."""
    return problem.shape["q"] >= TILES_FROM and _LARGE.feature in device.features


def _stage(entry: str, arguments: Arguments = lambda types: ()) -> Stage:
    return Stage(entry=entry, module=entry, arguments=arguments)


_FIRST, *_OTHERS = (block.entry for size in _SIZES for block in size.blocks)
VARIANT = Variant(
    name="coopmat",
    module="flash_coop",
    entry=_FIRST,
    arguments=lambda types: (),
    more=(
        *(Stage(entry=entry) for entry in _OTHERS),
        _stage("flash_halves", lambda types: (types["k"],)),
        _stage("flash_seen"),
        _stage("flash_combine", lambda types: ("numbers",)),
    ),
    launch=_launches,
    scratch=_scratch,
    arithmetic="f16_attention",
    requires=(
        *("coopmat", "device_scope", "fp16", "storage16"),
        *("subgroup_arithmetic", "subgroup_shuffle", "subgroup_vote"),
    ),
    accepts=lambda types: types["y"] == "f32" and types["k"] not in ("f32", "bf16"),
    refuses=_refuses,
    suits=_suits,
    candidates=lambda problem, device: [{"path": "tiles"}],
)
