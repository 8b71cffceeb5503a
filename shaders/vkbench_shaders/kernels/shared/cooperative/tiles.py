"""Tiles of products by cooperative matrices, for each size of matrices that devices multiply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vkbench.device import DeviceFacts

SLANG = {"f16": "half", "bf16": "BFloat16"}  # types of what is multiplied
ROUNDS = "rounds its factors: rounding could ruin an output whose terms cancel"
STEP = 32  # numbers along k at a time
_LINE = STEP // 8 + 1  # 16-byte words of a row in shared memory
_EVEN = {"f32": 1.0, "f16": 1.0}


@dataclass(frozen=True, kw_only=True)
class MatrixShape:
    """Sizes of the matrices that a device multiplies."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    def feature(self, element: str, sums: str) -> str:
        """The device feature that says that a device has it."""
        size = "" if self == LARGE else f"_{self.name}"
        return f"matrix_{element}_{sums}{size}"


LARGE = MatrixShape(m=16, n=16, k=16)  # NVIDIA, AMD
NARROW = MatrixShape(m=16, n=8, k=16)  # NVIDIA's for few vectors
INTEL = MatrixShape(m=8, n=16, k=16)
SMALL = MatrixShape(m=8, n=8, k=8)  # Mesa's CPU driver


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows and columns that a workgroup makes, and how many subgroups share them."""

    m: int
    n: int
    shape: MatrixShape
    subgroups: int = 4
    subgroups_n: int = 2  # that share a row
    resident: int = 2  # workgroups that a multiprocessor of a GPU holds at a time
    # time of a product beside that by 128 x 128, with sums in each format that it is made for
    costs: Mapping[str, float] = field(default_factory=lambda: dict(_EVEN), hash=False)

    @property
    def name(self) -> str:
        """What users ask for."""
        return f"coop_{self.m}x{self.n}"

    def shared_eights(self, sums: str) -> int:
        """Shared memory in 16 bytes: a step of both factors, later rows of sums."""
        line = self.n // self.subgroups_n // (4 if sums == "f32" else 8) + 1
        return max((self.m + self.n) * _LINE, self.subgroups * self.shape.m * line)

    @property
    def entry(self) -> str:
        """Its entry point in the shader module `cooperative_product`."""
        return f"{self.name}_{self.shape.name}"


TILES = (
    # with sums in f32, which do not fit into registers, an H200's driver loses the device
    Tile(m=256, n=256, shape=LARGE, subgroups=8, resident=1, costs={"f16": 0.75}),
    Tile(m=128, n=256, shape=LARGE, subgroups=8, subgroups_n=4, resident=1, costs={"f32": 0.95}),
    Tile(m=256, n=128, shape=LARGE, subgroups=8, resident=1, costs={"f32": 0.95}),
    Tile(m=128, n=128, shape=LARGE),
    Tile(m=64, n=64, shape=LARGE, resident=4, costs={"f32": 1.6, "f16": 1.6}),
    Tile(m=64, n=64, shape=INTEL),
    Tile(m=16, n=32, shape=SMALL),
)
NAMES = tuple(dict.fromkeys(tile.name for tile in TILES))
# that variants which are chosen without being asked for have; sums in f16 alone have the others
EXACT_NAMES = tuple(dict.fromkeys(tile.name for tile in TILES if "f32" in tile.costs))


def no_tiles(tile: object) -> str:
    """Why a code path cannot take a case that asks for other code's tiles."""
    return f"has no tiles of {tile}"


def lacks(device: DeviceFacts, element: str, sums: str, tile: str) -> str:
    """Why a device cannot multiply by the tiles that were asked for, or by any."""
    needed = "" if tile == "auto" else f" for tiles of {tile}"
    kind = f"{element} with sums in {sums}"
    return f"needs cooperative matrices of {kind}{needed}, which {device.name} lacks"


def binds_too_much(device: DeviceFacts, scratch: Sequence[int]) -> str | None:
    """Why a device cannot bind the largest of its scratch buffers, or None."""
    most, needed = device.limits["max_storage_range"], max(scratch)
    if needed > most:
        return f"takes {needed} bytes of scratch, the device binds {most} at most"
    return None


def refuses(params: Mapping[str, object]) -> str | None:
    """Why code without cooperative matrices cannot take a case: it asks for one of these tiles."""
    tile = params.get("tile")
    return no_tiles(tile) if tile in NAMES else None
