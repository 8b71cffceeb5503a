"""Products with chosen experts by cooperative matrices: lists of pairs, packed x, and tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Choice, Launch, Memory, Problem, Settings, Stage, Variant, grid
from vkbench_shaders.kernels.matrices import experts, products, tiles
from vkbench_shaders.kernels.matrices.cooperative.expert_tiles import NAMES, TILES, Tile
from vkbench_shaders.kernels.shared import limits
from vkbench_shaders.kernels.shared.cooperative.panels import EIGHT, Factor
from vkbench_shaders.kernels.shared.cooperative.product import element
from vkbench_shaders.kernels.shared.cooperative.tiles import (
    ROUNDS,
    SLANG,
    STEP,
    binds_too_much,
    lacks,
    no_tiles,
)

_LIST_THREADS = 256
_SLOT_WORDS = 3
_ROW_SIDE = 16  # panels of x have whole groups of so many rows
_FEWEST = 32  # rows of weights from which on `auto` multiplies by tiles


def _tiles(problem: Problem, device: DeviceFacts) -> list[Tile]:
    """The tiles that a device can make, of what was asked for; the likeliest first."""
    kind, named = element(problem.types), problem.params["tile"]
    room = products.room(problem, device)
    able = [
        tile
        for tile in TILES
        if named in ("auto", tile.name)
        and tile.shape.feature(kind, "f32") in device.features
        and tile.shared_bytes <= room
    ]
    return sorted(able, key=lambda tile: _time(problem, tile))


def _time(problem: Problem, tile: Tile) -> float:
    """Time by which tiles are ordered, where an expert's pairs come by chance."""
    e, u, n = (problem.shape[dim] for dim in "eun")
    average = n * u / e
    more = range(tile.pairs + 1, n + 1, tile.pairs)
    tiles_each = 1 - exp(-average) + sum(_at_least(pairs, average) for pairs in more)
    return e * (tiles_each * tile.cost + _is_packed(problem, tile))


def _at_least(pairs: int, average: float) -> float:
    """About how likely it is that an expert has so many pairs."""
    spread = max(average, 1.0) ** 0.5
    return 1 / (1 + exp(min(50.0, 1.7 * (pairs - 0.5 - average) / spread)))


def _x(problem: Problem) -> Factor:
    """The rows of x, one for each token or for each pair."""
    n, u = problem.shape["n"], problem.shape["u"]
    return Factor.of_rows(problem, "x", n if experts.is_single(problem) else n * u, 1)


def _weights(problem: Problem) -> Factor:
    """The matrices of all experts."""
    return Factor.of_rows(problem, "weights", problem.shape["m"], problem.shape["e"])


def _is_packed(problem: Problem, tile: Tile) -> bool:
    """Whether weights are packed before a tile is multiplied."""
    return not (tile.decodes or _weights(problem).is_direct(element(problem.types), tile.rows))


def _slots(problem: Problem, tile: Tile) -> int:
    """Room for tiles of pairs, wherever an expert's pairs begin."""
    e, u, n = (problem.shape[dim] for dim in "eun")
    return n * u // tile.pairs + e


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Bytes of the panels of weights and of x, and of the lists of pairs."""
    tile = _tiles(problem, device)[0]
    pairs = problem.shape["n"] * problem.shape["u"]
    weights = _weights(problem).panel_bytes(tile.rows) if _is_packed(problem, tile) else 0
    words = _slots(problem, tile) * _SLOT_WORDS + pairs
    return (weights, _x(problem).panel_bytes(_ROW_SIDE), 4 * words)


def launches(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """List the pairs of each expert, pack x and weights, and multiply."""
    tile = _tiles(problem, device)[0]
    weights = [_weights(problem).pack("a", tile.rows)] if _is_packed(problem, tile) else []
    return (
        _list(problem, tile, device),
        _x(problem).pack("b", _ROW_SIDE),
        *weights,
        _multiply(problem, tile, device),
    )


def _list(problem: Problem, tile: Tile, device: DeviceFacts) -> Launch:
    e, u, n = (problem.shape[dim] for dim in "eun")
    groups = grid(e)
    return Launch(
        groups=groups,
        push={
            "pairs": n * u,
            "experts": e,
            "side": tile.pairs,
            "slots": _slots(problem, tile),
            "groups_x": groups[0],
        },
        constants={"THREADS": min(_LIST_THREADS, device.limits["max_workgroup_invocations"])},
        entry="list_pairs",
    )


def _multiply(problem: Problem, tile: Tile, device: DeviceFacts) -> Launch:
    u, m, k = (problem.shape[dim] for dim in "umk")
    slots, tiles_m, x, y = (
        _slots(problem, tile),
        -(-m // tile.rows),
        _x(problem),
        problem.layout("y"),
    )
    groups = grid(slots * tiles_m)
    places = tiles.places(problem)
    return Launch(
        groups=groups,
        push={
            "m": m,
            "k": k,
            "slots": slots,
            "tiles_m": tiles_m,
            "groups_x": groups[0],
            "sharing": u if experts.is_single(problem) else 1,
            "steps": x.steps,
            "panel": x.padded_rows(_ROW_SIDE) * (STEP // EIGHT),
            "weights_panel": _weights(problem).padded_rows(tile.rows) * (STEP // EIGHT),
            **{name: place for name, place in places.items() if not name.startswith("x_")},
        },
        constants={
            "THREADS": tile.subgroups * device.subgroup_size,
            "SHARED": tile.shared_eights,
            "WIDE": products.is_wide(problem, "weights"),
            "Y_WIDE": all(number % 4 == 0 for number in (m, y.offset, y.strides[-2])),
            "PANELS": _is_packed(problem, tile),
        },
        entry=tile.entry,
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot multiply it, or None."""
    tile = str(problem.params["tile"])
    if tile not in ("auto", *NAMES):
        return no_tiles(tile)
    if not _tiles(problem, device):
        return lacks(device, element(problem.types), "f32", tile)
    if problem.shape["n"] * problem.shape["u"] * problem.shape["m"] == 1:
        return ROUNDS
    return binds_too_much(device, scratch(problem, device)) or limits.too_far(problem, device)


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Settings to choose from, the likeliest first."""
    return [{"tile": tile.name} for tile in _tiles(problem, device)]


def suits(problem: Problem, device: DeviceFacts) -> bool:
    """Whether there are rows enough for a tile."""
    return problem.shape["m"] >= _FEWEST


def variants() -> tuple[Variant, ...]:
    """Code paths: factors in f16, or in bf16 where weights are."""
    return (
        _variant("coopmat", "f16_inputs", "f16", lambda types: types["weights"] == "f32"),
        _variant("coopmat_to_bf16", "bf16_inputs", "bf16", lambda types: True),
    )


def _variant(
    name: str, arithmetic: str, of: str, only_by_name: Callable[[Mapping[str, str]], bool]
) -> Variant:
    def stage(tile: Tile) -> Stage:
        return Stage(
            entry=tile.entry,
            module="expert_product",
            arguments=lambda types: (
                (types["weights"], SLANG[of], of) if tile.decodes else (SLANG[of],)
            ),
        )

    own, *others = (stage(tile) for tile in TILES)
    return Variant(
        name=name,
        module=own.module,
        entry=own.entry,
        arguments=own.arguments,
        more=(
            *others,
            *(_packing(binding, of) for binding in ("weights", "x")),
            Stage(entry="list_pairs", module="list_pairs"),
        ),
        launch=launches,
        own=Memory(scratch=scratch),
        arithmetic=arithmetic,
        requires=(
            *("coopmat", "device_scope", "subgroup_basic"),
            "bf16" if of == "bf16" else "fp16",
        ),
        accepts=lambda types: products.is_numbers(types) and element(types) == of,
        refuses=refuses,
        choice=Choice(suits=suits, only_by_name=only_by_name, candidates=candidates),
    )


def _packing(binding: str, of: str) -> Stage:
    return Stage(
        entry=f"pack_rows_{'ab'[binding == 'x']}",
        module="pack_rows",
        arguments=lambda types: (types[binding], of),
    )
