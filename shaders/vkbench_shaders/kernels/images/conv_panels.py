"""Convolutions as products of panels: patches and weights are packed first (pack_patches.slang)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Problem, Push, Stage, grid
from vkbench_shaders.kernels.images.conv_coop import Sizes, taps
from vkbench_shaders.kernels.shared.cooperative import product
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
NAMES = tuple(dict.fromkeys(f"{tile.name}{_PACKED}" for tile in _USED))


def posed(problem: Problem, sizes: Sizes, push: Push, wide: Mapping[str, int]) -> Product:
    """Where channels are innermost, one product of all pixels by all channels; else one an image.

    `push` and `wide` are what launches by any tile say.
    """
    weights = _weights(problem, sizes)
    patches = _patches(problem, sizes, push, wide)
    left, right = (patches, weights) if sizes.is_last else (weights, patches)
    asked = str(problem.params.get("tile", "auto"))
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
        tile=asked.removesuffix(_PACKED),
        split=1,
    )


def _weights(problem: Problem, sizes: Sizes) -> Factor:
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


def _patches(problem: Problem, sizes: Sizes, push: Push, constants: Mapping[str, int]) -> Factor:
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
        constants={"X_WIDE": constants["X_WIDE"], **taps(sizes, STEP)},
        entry="pack_patches_last" if sizes.is_last else "pack_patches",
    )


def stages() -> tuple[Stage, ...]:
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


def ranked(posed: Product, device: DeviceFacts) -> list[str]:
    """The tiles that a device has, the one that should be fastest first."""
    return [f"{way.tile.name}{_PACKED}" for way in product.ways(posed, device)]


def seconds(posed: Product, sizes: Sizes, device: DeviceFacts) -> float:
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
