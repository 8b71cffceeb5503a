"""How attention of few queries is cut for cooperative matrices: into partitions, or not at all.

A second launch joins partitions, on all of the device, or the last workgroup of a tile of rows
does, which saves that launch: on an H200, a query over 1024 positions of f16, in heads of 128,
takes 7.3 us instead of 9.4. Where workgroups have all positions (`short`), each of them reads all
keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil, prod

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Problem, Settings, Stage
from vkbench_shaders.kernels.attention.flash_plan import (
    EIGHT,
    Few,
    group_rows,
    parts,
    scratch_bytes,
    workgroups,
)
from vkbench_shaders.tuning.thresholds import Attention, thresholds

_SUBGROUPS = 4  # of a workgroup
_EACH = 8  # partitions that a thread weighs, where the last workgroup joins them
_LEAST = 16  # bytes of a buffer that is not used
_CHUNK = 64  # numbers of a key that pass through shared memory at a time
_MOST_STEPS = 4  # of a partition
_SHORT_SUBGROUPS = {16: 16, 8: 4}  # of a workgroup that has all positions, by rows of a matrix
_COLUMNS = 32  # numbers of a value that it makes
_ENTRIES = {  # by rows of a matrix, then by the numbers of keys and values that they hold
    16: {64: "flash_few_64", 128: "flash_few_128", 256: "flash_few_256"},
    8: {64: "flash_few_64_small"},  # what Mesa's lavapipe has: its compiler takes minutes for more
}
_SHORT_ENTRIES = {
    16: {64: "flash_short_64", 128: "flash_short_128", 256: "flash_short_256"},
    8: {64: "flash_short_64_small"},
}


def _most_joined(side: int) -> int:
    """Partitions that a workgroup joins at most."""
    return _SUBGROUPS * side // EIGHT * _EACH


def lengths(side: int) -> list[int]:
    """Positions of a partition, to choose from; first what should be the fastest."""
    return [_SUBGROUPS * side * steps for steps in range(1, _MOST_STEPS + 1)]


def plan(problem: Problem, side: int, part: int) -> Few | None:
    """Partitions of so many positions; None if keys or values are too long."""
    width = _width(_ENTRIES, problem, side)
    if width is None:
        return None
    return Few(
        rows=side,
        part=part,
        steps=part // (_SUBGROUPS * side),
        threads=_SUBGROUPS * side * side // EIGHT,
        entry=_ENTRIES[side][width],
        stage=_stage(side, width, part),
    )


def plan_joined(problem: Problem, device: DeviceFacts, side: int, part: int = 0) -> Few | None:
    """Partitions of so many positions that the last workgroup of a tile joins; 0: the fastest.

    None if keys or values are too long, or partitions too many. Short partitions are faster while
    they are about as many as a device has compute units.
    """
    cuts = [plan(problem, side, length) for length in ([part] if part else lengths(side)[:2])]
    joining = [replace(cut, joins=True) for cut in cuts if cut is not None]
    fitting = [cut for cut in joining if parts(problem, cut) <= _most_joined(side)]
    most = device.compute_units * (2 if problem.format("k").quantised else 1)
    at_once = (cut for cut in fitting if prod(workgroups(problem, cut)) <= most)
    return next(at_once, fitting[-1] if fitting else None)


def short_lengths(side: int) -> list[int]:
    """Positions of a partition of `flash_short`, to choose from; first what should be fastest."""
    whole = _SHORT_SUBGROUPS[side] * side
    return [whole // 2, *(whole * steps for steps in range(1, _MOST_STEPS + 1))]


def short(problem: Problem, side: int, part: int = 0) -> Few | None:
    """One launch whose workgroups share values, and have so many positions; 0: all of them.

    None if keys, values or partitions are too long.
    """
    width = _width(_SHORT_ENTRIES, problem, side)
    length, most = part or max(1, problem.shape["n"]), _SHORT_SUBGROUPS[side]
    subgroups = min(most, max(1, part // side)) if part else most
    steps = ceil(length / (subgroups * side))
    if width is None or steps > _MOST_STEPS:
        return None
    queries = side * (width // EIGHT + 1)
    turn = side * max(_CHUNK // EIGHT + 1, _COLUMNS // EIGHT + 1 + side // EIGHT + 1, _COLUMNS // 4)
    cut = Few(
        rows=side,
        part=length,
        steps=steps,
        threads=subgroups * side * side // EIGHT,
        entry=_SHORT_ENTRIES[side][width],
        stage=max(queries, subgroups * side) + subgroups * turn,
        shares=ceil(problem.shape["e"] / _COLUMNS),
        is_short=True,
    )
    return replace(cut, joins=parts(problem, cut) > 1)


def choose(problem: Problem, device: DeviceFacts, side: int) -> Few | None:
    """Partitions, if they are asked for or should be faster; None: tiles."""
    path, part = problem.params["path"], int(problem.params["part"])
    is_many = group_rows(problem) > thresholds(device, Attention).few_rows
    if path == "tiles" or (path == "auto" and is_many):
        return None
    if path == "short":
        return short(problem, side, part)
    if path == "joined":
        return plan_joined(problem, device, side, part)
    one_launch = None if part or path == "split" else _one_launch(problem, device, side)
    return one_launch or plan(problem, side, part or _split_length(problem, device, side))


def _split_length(problem: Problem, device: DeviceFacts, side: int) -> int:
    """Positions of a partition: longer ones are faster where there are many."""
    least, longer, *_ = lengths(side)
    cut = plan(problem, side, least)
    is_many = cut is not None and prod(workgroups(problem, cut)) > 2 * device.compute_units
    return longer if is_many else least


def _one_launch(problem: Problem, device: DeviceFacts, side: int) -> Few | None:
    """One launch, where it is faster than partitions and what joins them, measured on an H200."""
    width = max(problem.shape["d"], problem.shape["e"])
    measured = thresholds(device, Attention)
    if part := _only_part(problem, measured, width, side):
        return plan_joined(problem, device, side, part)
    if _is_short(problem, device, side):
        return short(problem, side)
    if width <= measured.joined_width:
        cut = plan_joined(problem, device, side)
        return cut if cut and _joins_fast(problem, device, cut) else None
    shorts = (short(problem, side, n) for n in short_lengths(side)[:2])
    return next((cut for cut in shorts if _fits_at_once(problem, device, cut)), None)


def _joins_fast(problem: Problem, device: DeviceFacts, cut: Few) -> bool:
    """Whether the workgroups that join are few, and what each of them joins is little."""
    rows = min(cut.rows, group_rows(problem)) * parts(problem, cut)
    is_little = rows <= thresholds(device, Attention).joined_rows
    return is_little and prod(workgroups(problem, cut)) <= 2 * device.compute_units


def _only_part(problem: Problem, measured: Attention, width: int, side: int) -> int | None:
    """A length that holds all positions, where one workgroup should have them."""
    most = (width <= measured.narrow_width) + (width <= measured.joined_width)
    return next((n for n in lengths(side)[:most] if n >= problem.shape["n"]), None)


def _is_short(problem: Problem, device: DeviceFacts, side: int) -> bool:
    """Whether workgroups may have all positions: each of them reads, and decodes, all keys."""
    half, whole, *_ = short_lengths(side)
    most = half if problem.format("k").quantised else whole
    return problem.shape["n"] <= most and _fits_at_once(problem, device, short(problem, side))


def _fits_at_once(problem: Problem, device: DeviceFacts, cut: Few | None) -> bool:
    if cut is None or device.limits.get("max_shared_bytes", 0) < cut.stage * 16:
        return False
    return prod(workgroups(problem, cut)) <= device.compute_units


def candidates(problem: Problem, device: DeviceFacts, side: int) -> list[Settings]:
    """Partitions of all lengths."""
    joinable = [n for n in lengths(side) if plan_joined(problem, device, side, n)]
    parted = [n for n in short_lengths(side) if n < problem.shape["n"] and short(problem, side, n)]
    parts_by_path = {"split": lengths(side), "joined": joinable, "short": [0, *parted]}
    return [{"path": path, "part": part} for path, cuts in parts_by_path.items() for part in cuts]


def settings(cut: Few) -> Settings:
    """What asks for this cut."""
    if cut.is_short:
        return {"path": "short", "part": cut.part if cut.joins else 0}
    return {"path": "joined" if cut.joins else "split", "part": cut.part}


def refuses(problem: Problem, side: int) -> str | None:
    """Why there may be no partitions of the kind that was asked for; None if tiles will do."""
    path, widest = problem.params["path"], max(_ENTRIES[side])
    more = {
        "split": "",
        "joined": f" and {_most_joined(side)} partitions",
        "short": f" and {_MOST_STEPS * _SHORT_SUBGROUPS[side] * side} positions of a workgroup",
    }
    if path not in more:
        return None
    if not _is_alike(problem.types):
        return f"path={path} is for keys and values of one format"
    return f"path={path} is for heads of up to {widest} numbers{more[path]}"


def scratch(problem: Problem, cut: Few) -> tuple[int, int]:
    """Bytes of sums and statistics of partitions."""
    if not cut.is_short:
        sums, stats = scratch_bytes(problem, cut)
        return sums, stats
    rows = prod(workgroups(problem, cut)) * cut.rows if cut.joins else 0
    return max(_LEAST, rows * _COLUMNS * 4), max(_LEAST, rows * 8)


def counters(problem: Problem, cut: Few) -> int:
    """One for each tile of rows, or share of its values, whose partitions the last one joins."""
    across, _, groups = workgroups(problem, cut)
    return max(1, across * groups) if cut.joins else 1  # unused


def _width(entries: dict[int, dict[int, str]], problem: Problem, side: int) -> int | None:
    """The fewest numbers of keys and values that an entry point is for, and that hold these.

    None if they are in different formats too.
    """
    if not _is_alike(problem.types):
        return None
    needed = max(problem.shape["d"], problem.shape["e"])
    return next((width for width in entries[side] if width >= needed), None)


def _stage(side: int, width: int, part: int) -> int:
    """Uint4s: queries and later weights, scores, and what each subgroup has for itself."""
    first = side * (max(width, part) // EIGHT + 1)
    scores = side * (part // 4 + 1)
    values = max(1, 128 // width) * (width // _SUBGROUPS // EIGHT + 1)
    return first + scores + _SUBGROUPS * side * max(_CHUNK // EIGHT + 1, values)


def _stages(module: str, entries: dict[int, dict[int, str]]) -> Iterator[Stage]:
    for of_side in entries.values():
        for entry in of_side.values():
            yield Stage(
                module=module,
                entry=entry,
                arguments=lambda types: (types["k"],),
                accepts=_is_alike,
            )


def _is_alike(types: Mapping[str, str]) -> bool:
    """Whether keys and values are in one format."""
    return types["k"] == types["v"]


STAGES = (*_stages("flash_few", _ENTRIES), *_stages("flash_short", _SHORT_ENTRIES))
