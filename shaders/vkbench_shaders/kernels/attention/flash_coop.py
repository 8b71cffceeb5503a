"""How attention of many queries is launched on cooperative matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import (
    Arguments,
    Choice,
    Launch,
    Memory,
    Problem,
    Settings,
    Stage,
    Variant,
)
from vkbench_shaders.kernels.attention import caches, flash, flash_few
from vkbench_shaders.kernels.attention.flash_matrices import (
    LARGE,
    SIZES,
    Block,
    Matrices,
    matrices_of,
)
from vkbench_shaders.kernels.attention.flash_plan import (
    EIGHT,
    THREADS,
    Few,
    Tiles,
    exceeds,
    group_rows,
    is_whole,
    padded_rows,
    partition,
    parts,
    workgroups,
)
from vkbench_shaders.kernels.shared import limits
from vkbench_shaders.tuning.thresholds import Attention, thresholds

_SCATTERED = 8 * (4 + 2)  # bytes of a thread for its elements of sums and of left factors
_NOTHING = 16  # bytes of a buffer that is not used
_OTHER_BUFFERS = 4  # beside sums and statistics
_SEEN_POSITIONS = 128  # that a workgroup of `flash_seen` sorts


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Tiles, and the sizes that follow from the matrices."""

    tiles: Tiles
    block: Block

    @property
    def chunks(self) -> int:
        """Workgroups that share the values of a tile."""
        return self.tiles.value_fours * 4 // self.block.values


def plan(problem: Problem, device: DeviceFacts) -> Plan:
    """The smallest block that holds a key, in as many partitions as keep a device busy."""
    shape, matrices = problem.shape, matrices_of(device)
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
    threads = block.subgroups * matrices.lanes
    tiles = Tiles(
        threads=threads,
        rows=rows,
        positions=matrices.positions(block),
        part=_part(problem, device, groups),
        key_size=block.keys,
        value_fours=chunks * block.values // 4,
        entry=matrices.entry(block),
        stage=matrices.stage(block),
    )
    return Plan(tiles=tiles, block=block)


def few(problem: Problem, device: DeviceFacts) -> Few | None:
    """Partitions of few queries, if they are asked for or should be faster; None: tiles."""
    return flash_few.choose(problem, device, matrices_of(device).side)


def _part(problem: Problem, device: DeviceFacts, groups: int) -> int:
    """Positions of a partition, where so many workgroups would take one each."""
    measured = thresholds(device, Attention)
    busy = max(measured.matrices_workgroups, device.compute_units)
    return partition(problem.shape["n"], busy // max(groups, 1), measured.matrices_part)


def _fits_whole(problem: Problem, device: DeviceFacts, matrices: Matrices, block: Block) -> bool:
    """Whether all tiles and steps are whole, there are no sinks, and tiles are enough."""
    shape, rows = problem.shape, matrices.rows(block)
    groups = shape["s"] * shape["h"] * shape["q"] // rows
    q, y, mask = (problem.layout(name) for name in ("q", "y", "mask"))
    # queries and results have rows that begin at 16 bytes, a mask is read in fours
    places = [
        *(q.offset, *q.strides[:3]),
        *(y.offset, *y.strides[:3]),
        *((mask.offset, mask.strides[0]) if _is_masked(problem) else ()),
    ]
    return (
        (shape["d"], shape["e"]) == (block.keys, block.values)
        and (shape["q"] % rows, shape["n"] % matrices.positions(block)) == (0, 0)
        and (not _is_halves(problem) or (flash.is_wide(problem) and _has_no_gaps(problem)))
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
        and _is_halves(problem)
        and flash.is_wide(problem)
        and (shape["d"], shape["e"]) == (tiles.key_size, tiles.value_fours * 4)
        and shape["n"] % tiles.positions == 0
    )


def _is_halves(problem: Problem) -> bool:
    """Whether keys and values are f16, as matrices take them."""
    return all(problem.types[name] == "f16" for name in "kv")


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
    if partitions := few(problem, device):
        return (*flash_few.scratch(problem, partitions), *(_NOTHING,) * _OTHER_BUFFERS)
    chosen, shape = plan(problem, device), problem.shape
    tiles = chosen.tiles
    rows, count = padded_rows(problem, tiles), parts(problem, tiles)
    groups = shape["s"] * shape["g"]
    summed = groups * count * rows if count > 1 else 0
    steps = ceil(shape["n"] / tiles.positions)
    length = 0 if _is_direct(problem, chosen) else steps * tiles.positions
    sizes = (
        summed * ceil(shape["e"] / EIGHT) * EIGHT * 4,
        summed * 8,
        0 if chosen.block.kept else groups * rows * tiles.key_size * 2,
        groups * length * tiles.key_size * 2,
        groups * length * tiles.value_fours * 8,
        rows // tiles.rows * steps * 4 if _is_masked(problem) else 0,
    )
    return tuple(size or _NOTHING for size in sizes)


def _counters(problem: Problem, device: DeviceFacts) -> int:
    """Counters that the launches take; one that is not used for tiles."""
    cut = few(problem, device)
    return flash_few.counters(problem, cut) if cut else 1


def _is_masked(problem: Problem) -> bool:
    return problem.params["mask"] != "none"


def _is_capped(problem: Problem) -> bool:
    return bool(problem.params["softcap"])


def _launches(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    if partitions := few(problem, device):
        return _few_launches(problem, device, partitions)
    chosen = plan(problem, device)
    tiles = chosen.tiles
    launches = []
    if not _is_direct(problem, chosen):
        arrays = 2 if chosen.block.kept else 3  # queries only where they are not kept
        launches.append(flash.spread_launch(problem, tiles, "flash_halves", arrays))
    if _is_masked(problem):
        launches.append(_seen_launch(problem, chosen))
    launches.append(_coop_launch(problem, chosen))
    if parts(problem, tiles) > 1:
        launches.append(flash.combine_launch(problem, device, tiles))
    return tuple(launches)


def _few_launches(problem: Problem, device: DeviceFacts, cut: Few) -> tuple[Launch, ...]:
    """Partitions, and what joins them if there are several."""
    is_one = parts(problem, cut) == 1 and problem.params["sinks"] == "no" and not cut.is_short
    partitions = Launch(
        groups=workgroups(problem, cut),
        push=flash.push(problem, cut, 1),
        constants={
            "THREADS": cut.threads,
            "WIDE": flash.is_wide(problem),
            "STEPS": cut.steps,
            "STAGE": cut.stage,
            "JOINS": cut.joins and not is_one,
            **({} if cut.is_short else {"WHOLE": is_one}),
        },
        entry=cut.entry,
    )
    if cut.is_short or cut.joins or is_one:
        return (partitions,)
    return (partitions, flash.combine_launch(problem, device, cut))


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
            "PARTS": chosen.block.subgroups if is_whole else 1,
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
    matrices = matrices_of(device)
    if matrices.feature not in device.features:
        return f"needs {' or '.join(size.feature for size in SIZES)}, {device.name} has neither"
    if device.subgroup_size != matrices.lanes:
        return f"is for subgroups of {matrices.lanes}, the device has {device.subgroup_size}"
    if (reason := flash_few.refuses(problem, matrices.side)) and few(problem, device) is None:
        return reason
    if problem.shape["d"] > (most_keys := matrices.blocks[-1].keys):
        return f"is for keys of up to {most_keys} numbers"
    return _too_large(problem, device) or limits.too_far(problem, device)


def _too_large(problem: Problem, device: DeviceFacts) -> str | None:
    cut = few(problem, device) or plan(problem, device).tiles
    # beside the stage of tiles what is needed where the order of elements is not known
    beside = 0 if isinstance(cut, Few) else cut.threads * _SCATTERED
    room = device.limits.get("max_shared_bytes", 0)
    if reason := limits.too_much_shared(cut.stage * 16 + beside, room):
        return reason
    groups = max(max(launch.groups) for launch in _launches(problem, device))
    return exceeds(device, max(_scratch(problem, device)), groups)


def _suits(problem: Problem, device: DeviceFacts) -> bool:
    """Prompts, few queries in one launch, and heads that share keys and values.

    Matrices of 8 x 8 are those of CPU drivers.
    """
    if LARGE.feature not in device.features:
        return False
    measured = thresholds(device, Attention)
    if problem.shape["q"] >= measured.tiles_from_rows:
        return True
    if (cut := few(problem, device)) is None:
        return False
    is_shared = group_rows(problem) >= measured.matrices_from_rows
    if not is_shared and not _is_quick(problem, device, cut):
        return False
    return problem.shape["d"] <= measured.matrices_whole_keys or not is_whole(problem, device)


def _is_quick(problem: Problem, device: DeviceFacts, cut: Few) -> bool:
    """Whether partitions of rows that share no keys are faster than threads: in one launch."""
    measured, shape = thresholds(device, Attention), problem.shape
    is_narrow = shape["d"] <= measured.matrices_narrow_keys
    is_little = is_narrow or shape["n"] <= measured.matrices_positions
    return is_little and len(_few_launches(problem, device, cut)) == 1


def _candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Tiles, and partitions of several lengths: first what should be faster."""
    tiles: Settings = {"path": "tiles", "part": 0}
    cut = few(problem, device)
    chosen = flash_few.settings(cut) if cut else tiles
    few_settings = flash_few.candidates(problem, device, matrices_of(device).side)
    ways = [tiles, *few_settings]
    return sorted(ways, key=lambda settings: settings != chosen)


def _stage(entry: str, arguments: Arguments = lambda types: ()) -> Stage:
    return Stage(entry=entry, module=entry, arguments=arguments)


_FIRST, *_OTHERS = (size.entry(block) for size in SIZES for block in size.blocks)
VARIANT = Variant(
    name="coopmat",
    module="flash_coop",
    entry=_FIRST,
    arguments=lambda types: (),
    more=(
        *(Stage(entry=entry) for entry in _OTHERS),
        *flash_few.STAGES,
        _stage("flash_halves", lambda types: (types["k"], types["v"])),
        _stage("flash_seen"),
        _stage("flash_combine", lambda types: ("numbers",)),
    ),
    launch=_launches,
    own=Memory(scratch=_scratch, counters=_counters),
    arithmetic="f16_attention",
    requires=(
        *("coopmat", "device_scope", "fp16", "storage16"),
        *("subgroup_arithmetic", "subgroup_shuffle", "subgroup_vote"),
    ),
    accepts=lambda types: types["y"] == "f32" and not {types["k"], types["v"]} & {"f32", "bf16"},
    refuses=_refuses,
    choice=Choice(suits=_suits, candidates=_candidates),
)
