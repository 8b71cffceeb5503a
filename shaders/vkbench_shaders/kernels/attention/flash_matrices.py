"""Sizes of cooperative matrices, and the blocks of attention that are made of them."""

from __future__ import annotations

from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.kernels.attention.flash_plan import EIGHT


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a workgroup makes, in an entry point of `flash_coop`."""

    keys: int  # numbers of a query or key, padded
    values: int  # numbers of a value that it makes at a time
    blocks: int  # matrices' worth of rows that a subgroup has
    step: int  # matrices' worth of positions
    subgroups: int = 8  # of a workgroup
    kept: bool = True  # whether queries stay in registers
    is_plain: bool = False  # whether it has no registers left for a mask or a cap
    is_whole: bool = False  # whether it takes whole tiles of one head only: see `flash_coop`


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """A size of cooperative matrices."""

    feature: str  # of devices that have it
    suffix: str  # of entry points
    side: int  # rows and columns
    lanes: int  # of a subgroup, with 8 elements of a matrix each
    blocks: tuple[Block, ...]  # the first one that fits is taken

    def entry(self, block: Block) -> str:
        """The entry point of a block."""
        kind, plain = "whole" if block.is_whole else "coop", "_plain" if block.is_plain else ""
        return f"flash_{kind}_{block.keys}{plain}{self.suffix}"

    def rows(self, block: Block) -> int:
        """Rows of a tile."""
        return block.subgroups * block.blocks * self.side

    def positions(self, block: Block) -> int:
        """Positions of a step."""
        return block.step * self.side

    def stage(self, block: Block) -> int:
        """Uint4s of shared memory: for a step, or a matrix of results for each subgroup."""
        step = self.positions(block) * ((block.keys + block.values) // EIGHT + 2)
        return max(step, block.subgroups * self.side * self.side // 4)


LARGE = Matrices(
    feature="matrix_f16_f32",
    suffix="",
    side=16,
    lanes=32,
    blocks=(
        Block(keys=64, values=64, blocks=2, step=4, subgroups=4, is_whole=True),
        Block(keys=128, values=128, blocks=2, step=2, is_plain=True, is_whole=True),
        Block(keys=128, values=128, blocks=1, step=4, is_whole=True),
        Block(keys=256, values=256, blocks=1, step=1, is_whole=True),
        Block(keys=64, values=64, blocks=2, step=4),
        Block(keys=80, values=80, blocks=2, step=2),
        Block(keys=128, values=128, blocks=2, step=2, is_plain=True),
        Block(keys=128, values=128, blocks=1, step=4),
        Block(keys=256, values=256, blocks=1, step=1),
        Block(keys=576, values=256, blocks=1, step=1, kept=False),
    ),
)
# 8 x 8 x 8 is what Mesa's lavapipe has. Its compiler takes minutes for larger blocks.
SMALL = Matrices(
    feature="matrix_f16_f32_8x8x8",
    suffix="_small",
    side=8,
    lanes=8,
    blocks=(
        Block(keys=64, values=64, blocks=1, step=1, subgroups=4, is_whole=True),
        Block(keys=64, values=64, blocks=1, step=2, subgroups=4),
        Block(keys=80, values=80, blocks=2, step=1, subgroups=4),
        Block(keys=128, values=128, blocks=1, step=1, subgroups=4),
        Block(keys=256, values=256, blocks=1, step=1, subgroups=4),
        Block(keys=576, values=256, blocks=1, step=1, subgroups=4, kept=False),
    ),
)


SIZES = (LARGE, SMALL)  # the best first


def matrices_of(device: DeviceFacts) -> Matrices:
    """The size that a device has; the last one also stands for none."""
    return next((size for size in SIZES if size.feature in device.features), SIZES[-1])
