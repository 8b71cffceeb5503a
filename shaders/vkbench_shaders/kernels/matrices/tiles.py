"""Tiles of products of two matrices: their sizes, and which one a product is cut into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Refuses, Settings, Tuning, Variant
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.shared import limits
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.tuning.rates import busy


@dataclass(frozen=True)
class Tile:
    """Rows and columns that a workgroup makes, and those that a thread makes of them."""

    m: int
    n: int
    block_m: int
    block_n: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}"

    @property
    def threads(self) -> int:
        return self.m * self.n // (self.block_m * self.block_n)

    @property
    def shared_bytes(self) -> int:
        return (self.m + self.n) * products.TILE_STEP * 4

    def constants(self, problem: Problem) -> dict[str, int]:
        """Specialisation constants of the shader module `tiles`."""
        return {
            "THREADS": self.threads,
            "TILE_M": self.m,
            "TILE_N": self.n,
            "BLOCK_M": self.block_m,
            "BLOCK_N": self.block_n,
            "WIDE_WEIGHTS": products.is_wide(problem, "weights"),
            "WIDE_X": products.is_wide(problem, "x"),
        }


# Large blocks read shared memory less often, small ones leave fewer threads idle.
TILES = (
    Tile(128, 64, 8, 8),
    Tile(64, 64, 8, 4),
    Tile(128, 32, 8, 4),
    Tile(32, 64, 4, 4),
    Tile(128, 16, 8, 2),
    Tile(32, 32, 4, 4),
)
SMALLEST = TILES[-1]
_COST = {64: 1.0, 32: 1.3, 16: 2.0}  # time of a product, by how many a thread makes of it
_AT_ONCE = 2  # tiles that a compute unit works on at a time


TILE = Param(
    default="auto",
    choices=("auto", *(tile.name for tile in TILES)),
    description="rows and columns that a workgroup makes; auto: what should be fastest",
)


def choose(problem: Problem, device: DeviceFacts, m: int, n: int, batches: int = 1) -> Tile:
    """The tile size asked for, or the one that leaves least of the device idle."""
    return rank_tiles(problem, device, m, n, batches)[0]


def rank_tiles(
    problem: Problem, device: DeviceFacts, m: int, n: int, batches: int = 1
) -> list[Tile]:
    """The tile asked for, or those that fit a device, the one that should be fastest first."""
    named = [tile for tile in TILES if problem.params["tile"] == tile.name]
    fitting = named or [tile for tile in TILES if not too_wide(problem, device, tile)]
    return sorted(fitting or [SMALLEST], key=lambda tile: _time(tile, device, m, n, batches))


def tuning(sizes: Callable[[Problem], tuple[int, int, int]]) -> Tuning:
    """Tuning of tiles; `sizes` gives rows and columns of a problem's products, and their count."""

    def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
        ranked = rank_tiles(problem, device, *sizes(problem))
        return [{"tile": tile.name} for tile in ranked]

    return Tuning(params=("tile",), candidates=candidates)


def too_wide(problem: Problem, device: DeviceFacts, tile: Tile) -> str | None:
    """Why a device has not the shared memory for a tile, or None."""
    needed = tile.shared_bytes + products.table_bytes(problem)
    has = device.limits.get("max_shared_bytes", 0)
    return limits.too_much_shared(needed, has, f"a tile of {tile.name}")


def _time(tile: Tile, device: DeviceFacts, m: int, n: int, batches: int) -> float:
    tiles = -(-m // tile.m) * -(-n // tile.n) * batches
    return max(tiles, busy(device, _AT_ONCE)) * tile.m * tile.n * _COST[tile.block_m * tile.block_n]


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot multiply it, or None."""
    named = problem.params["tile"]
    tile = next((tile for tile in TILES if tile.name == named), SMALLEST)
    return too_wide(problem, device, tile) or limits.too_far(problem, device)


def places(problem: Problem) -> dict[str, int]:
    """Push constants: offset and stride of the rows of each array, all equally far apart.

    In bytes for what is read, in items for what is written.
    """
    push: dict[str, int] = {}
    for name in ("weights", "x", "y"):
        layout = problem.layout(name)
        unit = problem.item_bytes(name) if problem.kernel.binding(name).is_input else 1
        push[f"{name}_offset"] = layout.offset * unit
        push[f"{name}_stride"] = layout.strides[-2] * unit
    return push


def argument(types: Mapping[str, str], dot: str) -> tuple[str]:
    """The way to multiply, as a type of the shaders."""
    if products.is_numbers(types):
        return (f"FloatTile<{types['weights']},{types['x']}>",)
    kind = "ByteTile" if products.is_blocks(types) else "PlainByteTile"
    return (f"{kind}<{types['weights']},{dot}>",)


def variants(
    name: str, launch: Callable[[Problem, DeviceFacts], Launch], refuses: Refuses
) -> tuple[Variant, ...]:
    """The code paths of a product, of the shader module `name`."""
    return (
        Variant(
            name="int_dot",
            module=name,
            arguments=lambda types: argument(types, "packed_dot"),
            launch=launch,
            arithmetic="f32",
            requires=("int_dot",),
            accepts=lambda types: not products.is_numbers(types),
            refuses=refuses,
        ),
        portable(
            name,
            launch,
            "f32",
            arguments=lambda types: argument(types, "byte_dot"),
            refuses=refuses,
        ),
    )
