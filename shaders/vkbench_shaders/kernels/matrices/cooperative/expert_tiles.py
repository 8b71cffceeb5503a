"""Tiles of products with chosen experts by cooperative matrices."""

from __future__ import annotations

from dataclasses import dataclass

from vkbench_shaders.kernels.shared.cooperative.tiles import (
    INTEL,
    LARGE,
    SMALL,
    STEP,
    MatrixShape,
)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Pairs, and rows of an expert's weights, that a workgroup multiplies."""

    pairs: int
    rows: int
    shape: MatrixShape
    subgroups: int = 4  # side by side along the rows
    decodes: bool = False  # weights itself, rather than read what was packed before
    cost: float  # time of a tile beside that of packing its weights, as on an H200

    @property
    def name(self) -> str:
        """What users ask for."""
        return f"coop_{self.pairs}x{self.rows}"

    @property
    def entry(self) -> str:
        """Its entry point in the shader module `expert_product`."""
        return f"{self.name}_{self.shape.name}"

    @property
    def chunk(self) -> int:
        """Numbers along k that it takes at a time."""
        return 2 * STEP if self.decodes else STEP

    @property
    def shared_bytes(self) -> int:
        return 16 * self.shared_eights

    @property
    def shared_eights(self) -> int:
        """Shared memory in 16 bytes: a chunk of both factors, later rows of sums."""
        line = self.rows // self.subgroups // 4 + 1
        chunk = (self.pairs + self.rows) * (self.chunk // 8 + 1)
        return max(chunk, self.subgroups * self.shape.m * line)


TILES = (
    Tile(pairs=128, rows=128, shape=LARGE, cost=3.0),
    Tile(pairs=64, rows=128, shape=LARGE, cost=1.85),
    Tile(pairs=32, rows=128, shape=LARGE, decodes=True, cost=2.3),
    Tile(pairs=64, rows=64, shape=INTEL, subgroups=2, cost=1.85),
    Tile(pairs=16, rows=32, shape=SMALL, subgroups=2, cost=1.85),
    Tile(pairs=8, rows=32, shape=SMALL, subgroups=2, decodes=True, cost=2.3),
)
NAMES = tuple(dict.fromkeys(tile.name for tile in TILES))
