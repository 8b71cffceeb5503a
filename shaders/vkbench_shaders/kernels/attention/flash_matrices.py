"""Sizes of cooperative matrices, and the blocks of attention that are made of them."""

from __future__ import annotations

from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.kernels.attention.flash_plan import EIGHT


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a workgroup makes, in an entry point of `flash_coop`."""

    entry: str
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
    side: int  # rows and columns
    lanes: int  # of a subgroup: each has 8 elements of a matrix
    blocks: tuple[Block, ...]  # the first one that fits is taken

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
    side=16,
    lanes=32,
    blocks=(
        Block(
            entry="flash_whole_64", keys=64, values=64, blocks=2, step=4, subgroups=4, is_whole=True
        ),
        Block(
            entry="flash_whole_128_plain",
            keys=128,
            values=128,
            blocks=2,
            step=2,
            is_plain=True,
            is_whole=True,
        ),
        Block(entry="flash_whole_128", keys=128, values=128, blocks=1, step=4, is_whole=True),
        Block(entry="flash_whole_256", keys=256, values=256, blocks=1, step=1, is_whole=True),
        Block(entry="flash_coop_64", keys=64, values=64, blocks=2, step=4),
        Block(entry="flash_coop_80", keys=80, values=80, blocks=2, step=2),
        Block(entry="flash_coop_128_plain", keys=128, values=128, blocks=2, step=2, is_plain=True),
        Block(entry="flash_coop_128", keys=128, values=128, blocks=1, step=4),
        Block(entry="flash_coop_256", keys=256, values=256, blocks=1, step=1),
        Block(entry="flash_coop_576", keys=576, values=256, blocks=1, step=1, kept=False),
    ),
)
# 8 x 8 x 8 is what Mesa's lavapipe has. Its compiler takes minutes for larger blocks.
SMALL = Matrices(
    feature="matrix_f16_f32_8x8x8",
    side=8,
    lanes=8,
    blocks=(
        Block(
            entry="flash_whole_64_small",
            keys=64,
            values=64,
            blocks=1,
            step=1,
            subgroups=4,
            is_whole=True,
        ),
        Block(entry="flash_coop_64_small", keys=64, values=64, blocks=1, step=2, subgroups=4),
        Block(entry="flash_coop_80_small", keys=80, values=80, blocks=2, step=1, subgroups=4),
        Block(entry="flash_coop_128_small", keys=128, values=128, blocks=1, step=1, subgroups=4),
        Block(entry="flash_coop_256_small", keys=256, values=256, blocks=1, step=1, subgroups=4),
        Block(
            entry="flash_coop_576_small",
            keys=576,
            values=256,
            blocks=1,
            step=1,
            subgroups=4,
            kept=False,
        ),
    ),
)


SIZES = (LARGE, SMALL)  # the best first


def matrices_of(device: DeviceFacts) -> Matrices:
    """The size that a device has; the last one also stands for none."""
    return next((size for size in SIZES if size.feature in device.features), SIZES[-1])
