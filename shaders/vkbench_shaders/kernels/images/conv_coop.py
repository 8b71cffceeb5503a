"""Convolutions as implicit products by cooperative matrices: see slang/images/conv_coop.slang."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Push, grid
from vkbench_shaders.kernels.shared.cooperative.tiles import LARGE, SMALL, MatrixShape
from vkbench_shaders.kernels.shared.limits import fits_shared
from vkbench_shaders.tuning.rates import rates_of
from vkbench_shaders.tuning.thresholds import Convolutions, thresholds

_BESIDE = 4356  # bytes of shared memory beside a tile's: places of a step's numbers and of pixels


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Channels and pixels of y that a workgroup makes, and how many numbers along k at a time."""

    m: int
    n: int
    shape: MatrixShape = LARGE
    subgroups: int = 4
    subgroups_m: int = 2  # that share a pixel
    step: int = 32  # along k
    resident: int = 1  # workgroups that a multiprocessor of a GPU holds at a time

    @property
    def size(self) -> str:
        return f"{self.m}x{self.n}x{self.step}"

    @property
    def name(self) -> str:
        """What users ask for."""
        return f"coop_{self.size}"

    def entry(self, is_last: bool) -> str:
        """Its entry point in the shader module `conv_coop`."""
        return f"conv_{'coop_last' if is_last else 'coop'}_{self.size}_{self.shape.name}"

    def shared_eights(self, is_last: bool) -> int:
        """Shared memory in 16 bytes: a step of both factors, later rows of sums."""
        subgroups_n = self.subgroups // self.subgroups_m
        row = self.m // self.subgroups_m if is_last else self.n // subgroups_n
        sums = self.subgroups * (self.shape.n if is_last else self.shape.m) * (row // 4 + 1)
        return max((self.m + self.n) * (self.step // 8 + 1), sums)

    def fits(self, device: DeviceFacts) -> bool:
        """Whether a device has its matrices, the room, and a thread for each pixel and number."""
        threads = self.subgroups * device.subgroup_size
        has = self.shape.feature("f16", "f32") in device.features
        needed = _BESIDE + 16 * max(map(self.shared_eights, (False, True)))
        return has and threads >= max(self.n, self.step) and fits_shared(needed, device)


TILES = (
    Tile(m=128, n=128, subgroups=8, resident=2),
    Tile(m=64, n=128, resident=2),
    Tile(m=64, n=64, resident=4),
    Tile(m=80, n=64, subgroups=10, subgroups_m=5, step=128, resident=1),
    Tile(m=64, n=64, subgroups=8, step=128, resident=1),
    Tile(m=32, n=64, step=64, resident=3),
    Tile(m=32, n=64, subgroups=8, step=128, resident=1),
    Tile(m=32, n=48, subgroups=6, step=96, resident=1),
    Tile(m=16, n=128, subgroups_m=1, resident=3),
    Tile(m=16, n=32, shape=SMALL),
)
NAMES = tuple(dict.fromkeys(tile.name for tile in TILES))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a problem multiplies."""

    results: int  # channels of y
    pixels: int
    depth: int  # of sums
    is_last: bool  # whether channels are innermost
    is_padded: bool  # whether windows reach over the border of x


def is_large(sizes: Sizes, device: DeviceFacts) -> bool:
    """Whether cooperative matrices are faster here."""
    least = thresholds(device, Convolutions)
    return sizes.results >= least.matrices_results and sizes.depth >= least.matrices_depth


def tiles(sizes: Sizes, named: str, device: DeviceFacts) -> list[Tile]:
    """The tiles that a device has of what was asked for, the one that should be fastest first."""
    possible = [tile for tile in TILES if named in ("auto", tile.name) and tile.fits(device)]
    return sorted(possible, key=lambda tile: seconds(tile, sizes, device))


def seconds(tile: Tile, sizes: Sizes, device: DeviceFacts) -> float:
    """What a product by a tile should take."""
    rates, costs = rates_of(device), thresholds(device, Convolutions)
    groups = max(1, -(-sizes.results // tile.m) * -(-sizes.pixels // tile.n))
    on_each = min(tile.resident, -(-groups // rates.compute_units))
    rounds = -(-groups // (rates.compute_units * on_each))
    loads = (tile.m + tile.n) * tile.step * on_each * costs.load_cost / rates.fma
    products = 2 * tile.m * tile.n * tile.step * on_each / (costs.rate_over_fma * rates.fma)
    step = rates.step_seconds + loads + products
    return rates.launch_seconds + rounds * (1 + -(-sizes.depth // tile.step)) * step


def launch(
    tile: Tile, sizes: Sizes, device: DeviceFacts, push: Push, wide: Mapping[str, int]
) -> Launch:
    """`push` and `wide` are what launches by any tile say."""
    tiles = (-(-sizes.results // tile.m), -(-sizes.pixels // tile.n))
    groups = grid(prod(tiles))
    return Launch(
        groups=groups,
        push={**push, "tiles_m": tiles[1 if sizes.is_last else 0], "groups_x": groups[0]},
        constants={
            "THREADS": tile.subgroups * device.subgroup_size,
            "SHARED": tile.shared_eights(sizes.is_last),
            "PIXELS": tile.n,
            **taps(sizes, tile.step),
            **wide,
        },
        entry=tile.entry(sizes.is_last),
    )


def taps(sizes: Sizes, step: int) -> dict[str, int]:
    """Specialisation constants of the shader module `conv_taps`."""
    return {
        "INSIDE": not sizes.is_padded,
        "WHOLE": sizes.depth % step == 0,
        "ITEMS": 1 if sizes.is_padded else 2 * step,
        "PLACES": 2 * step if sizes.is_padded else 1,
    }
