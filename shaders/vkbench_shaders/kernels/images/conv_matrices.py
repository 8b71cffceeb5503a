"""Convolutions by cooperative matrices: one dispatch, or products of panels.

Panels are patches and weights that are packed first (pack_patches.slang).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import (
    Choice,
    Launch,
    Launches,
    Memory,
    Problem,
    Push,
    Settings,
    Stage,
    Variant,
    grid,
)
from vkbench_shaders.kernels.images import conv_coop, patches
from vkbench_shaders.kernels.shared.cooperative import product
from vkbench_shaders.kernels.shared.cooperative import tiles as coop_tiles
from vkbench_shaders.kernels.shared.cooperative.panels import EIGHT, Factor
from vkbench_shaders.kernels.shared.cooperative.product import Product
from vkbench_shaders.kernels.shared.cooperative.tiles import STEP, TILES
from vkbench_shaders.tuning.rates import rates_of
from vkbench_shaders.tuning.thresholds import Convolutions, thresholds

_ROWS = 128  # that a workgroup packs at most
_THREADS = 256
_PACKED = "_packed"  # what ends the names of tiles
_BYTES = 6  # that packing moves for a number
_USED = tuple(tile for tile in TILES if "f32" in tile.costs)
OF_PANELS = tuple(dict.fromkeys(f"{tile.name}{_PACKED}" for tile in _USED))
NAMES = (*conv_coop.NAMES, *OF_PANELS)


def pose_product(
    problem: Problem, sizes: conv_coop.Sizes, push: Push, wide: Mapping[str, int]
) -> Product:
    """Where channels are innermost, one product of all pixels by all channels; else one an image.

    `push` and `wide` are what launches by any tile say.
    """
    weights = _weights(problem, sizes)
    patches = _patches(problem, sizes, push, wide)
    left, right = (patches, weights) if sizes.is_last else (weights, patches)
    tile = str(problem.params.get("tile", "auto"))
    return Product(
        left=left,
        right=right,
        left_binding=1 if sizes.is_last else 0,
        results={
            "m": left.rows,
            "n": right.rows,
            "matrices": patches.matrices,
            "first": 0,
            "row": right.rows,
            "matrix": left.rows * right.rows,
        },
        y_wide=bool(wide["Y_WIDE"]),
        element="f16",
        sums="f32",
        tile=tile.removesuffix(_PACKED),
        split=1,
    )


def _weights(problem: Problem, sizes: conv_coop.Sizes) -> Factor:
    return Factor(
        fmt=problem.types["weights"],
        rows=sizes.results,
        numbers=sizes.depth,
        matrices=1,
        first=0,
        row=sizes.depth,
        k=1,
        matrix=sizes.results * sizes.depth,
        along=True,
        wide=sizes.depth % 4 == 0,
        inner=1,
        repeat=1 if sizes.is_last else max(1, problem.shape["n"]),
    )


@dataclass(frozen=True, kw_only=True)
class _Patches(Factor):
    """Patches of x: no product can read them where they lie."""

    push: Push = field(default_factory=dict, hash=False)
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)
    entry: str = ""

    def is_direct(self, element: str, side: int) -> bool:
        return False

    def pack(self, binding: str, side: int) -> Launch:
        tile = min(side, _ROWS)
        blocks = -(-self.rows // side) * (side // tile)
        groups = grid(blocks * self.steps, self.matrices)
        return Launch(
            groups=groups,
            push={**self.push, "tiles_m": blocks, "groups_x": groups[0]},
            constants={
                **self.constants,
                "THREADS": min(_THREADS, tile * STEP // EIGHT),
                "TILE_ROWS": tile,
            },
            entry=self.entry,
        )


def _patches(
    problem: Problem, sizes: conv_coop.Sizes, push: Push, constants: Mapping[str, int]
) -> Factor:
    images = 1 if sizes.is_last else problem.shape["n"]
    rows = sizes.pixels // max(1, images)
    return _Patches(
        fmt="f32",
        rows=rows,
        numbers=sizes.depth,
        matrices=images,
        first=0,
        row=sizes.depth,
        k=1,
        matrix=rows * sizes.depth,
        along=True,
        wide=False,
        push=push,
        constants={"X_WIDE": constants["X_WIDE"], **conv_coop.taps(sizes, STEP)},
        entry="pack_patches_last" if sizes.is_last else "pack_patches",
    )


def stages_of_panels() -> tuple[Stage, ...]:
    """Entry points of packing and multiplying."""
    return (
        *(
            Stage(
                entry=tile.entry,
                module="cooperative_product",
                arguments=lambda types: ("half", "f32_sums", types["y"]),
            )
            for tile in _USED
        ),
        Stage(
            entry="pack_rows_a",
            module="pack_rows",
            arguments=lambda types: (types["weights"], "f16"),
        ),
        Stage(entry="pack_patches", module="pack_patches"),
        Stage(entry="pack_patches_last", module="pack_patches"),
    )


def rank_tiles(posed: Product, device: DeviceFacts) -> list[str]:
    """The tiles that a device has, the one that should be fastest first."""
    return [f"{way.tile.name}{_PACKED}" for way in product.ways(posed, device)]


def estimate_seconds(posed: Product, sizes: conv_coop.Sizes, device: DeviceFacts) -> float:
    """What packing and multiplying should take."""
    rates, costs = rates_of(device), thresholds(device, Convolutions)
    tile, _ = product.choose(posed, device)
    groups = -(-posed.left.rows // tile.m) * -(-posed.right.rows // tile.n)
    at_once = rates.busy(tile.resident)
    rounds = -(-groups * posed.results["matrices"] // at_once)
    work = 2 * rounds * at_once * tile.m * tile.n * sizes.depth
    multiplies = max(
        work / (costs.rate_over_fma * rates.fma * rates.compute_units),
        rounds * (1 + posed.left.steps) * costs.packed_step * rates.step_seconds,
    )
    packs = _BYTES * (sizes.pixels + sizes.results) * sizes.depth / rates.memory_bytes
    return multiplies + packs + 3 * rates.launch_seconds


@dataclass(frozen=True, kw_only=True)
class Posed:
    """What a case multiplies."""

    problem: Problem
    sizes: conv_coop.Sizes
    push: Push  # what launches by any tile say
    wide: Mapping[str, int]  # what comes in whole vec4s

    @property
    def asked(self) -> str:
        return str(self.problem.params.get("tile", "auto"))

    @cached_property
    def product(self) -> Product:
        """The product of packed panels that the convolution becomes."""
        return pose_product(self.problem, self.sizes, self.push, self.wide)

    def fused_tiles(self, device: DeviceFacts) -> list[conv_coop.Tile]:
        """Tiles of one dispatch."""
        return conv_coop.tiles(self.sizes, self.asked, device)

    def packed_tiles(self, device: DeviceFacts) -> list[str]:
        """Names of tiles of products of panels."""
        if self.asked != "auto" and self.asked not in OF_PANELS:
            return []
        return [] if product.refuses(self.product, device) else rank_tiles(self.product, device)

    def is_packed(self, device: DeviceFacts) -> bool:
        """Whether panels should be faster, or were asked for."""
        fused = self.fused_tiles(device)
        if not fused or not self.packed_tiles(device):
            return not fused
        best = conv_coop.seconds(fused[0], self.sizes, device)
        return estimate_seconds(self.product, self.sizes, device) < best


def variant(pose: Callable[[Problem], Posed], orders: tuple[bool, ...]) -> Variant:
    """`orders`: whether channels are innermost. `auto` never rounds weights of f32."""
    own, *others = (tile.entry(is_last) for is_last in orders for tile in conv_coop.TILES)
    return Variant(
        name="coopmat",
        module="conv_coop",
        entry=own,
        arguments=lambda types: (types["weights"],),
        more=(
            *(Stage(entry=entry, arguments=lambda types: (types["weights"],)) for entry in others),
            *stages_of_panels(),
        ),
        launch=lambda problem, device: _launches(pose(problem), device),
        own=Memory(scratch=lambda problem, device: _scratch(pose(problem), device)),
        arithmetic="f16_inputs",
        requires=("coopmat", "device_scope", "subgroup_basic", "fp16"),
        refuses=lambda problem, device: _refuses(pose(problem), device),
        choice=Choice(
            suits=lambda problem, device: conv_coop.is_large(pose(problem).sizes, device),
            only_by_name=lambda types: types["weights"] == "f32",
            candidates=lambda problem, device: _candidates(pose(problem), device),
        ),
        accepts=lambda types: types["weights"] != "bf16",  # f16 has fewer exponents
    )


def _refuses(posed: Posed, device: DeviceFacts) -> str | None:
    """Why a device cannot make a problem's products, or None."""
    sizes, tile = posed.sizes, posed.asked
    if tile not in ("auto", *NAMES):
        return coop_tiles.no_tiles(tile)
    if sizes.results * sizes.pixels == 1:
        return coop_tiles.ROUNDS
    if tile in OF_PANELS:
        return product.refuses(posed.product, device) or patches.refuses(posed.problem, device)
    if not posed.fused_tiles(device):
        return coop_tiles.lacks(device, "f16", "f32", tile)
    return patches.refuses(posed.problem, device)


def _launches(posed: Posed, device: DeviceFacts) -> Launches:
    if posed.is_packed(device):
        return product.launches(posed.product, device)
    tile = posed.fused_tiles(device)[0]
    return conv_coop.launch(tile, posed.sizes, device, posed.push, posed.wide)


def _scratch(posed: Posed, device: DeviceFacts) -> tuple[int, ...]:
    return product.scratch(posed.product, device) if posed.is_packed(device) else ()


def _candidates(posed: Posed, device: DeviceFacts) -> list[Settings]:
    fused, packed = [tile.name for tile in posed.fused_tiles(device)], posed.packed_tiles(device)
    names = [*packed, *fused] if posed.is_packed(device) else [*fused, *packed]
    return [{"tile": name} for name in names]
