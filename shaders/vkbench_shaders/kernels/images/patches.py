"""Patches of arrays as an operand of products in tiles: see slang/images/patches.slang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.kernel import Binding, Param, Problem, too_large
from vkbench_shaders.kernels.images.windows import TAPS, Window
from vkbench_shaders.launch import MOST_DIVIDED, divisor
from vkbench_shaders.tuning.rates import busy

_MOST_TAPS = (1 << 16) - 1


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows and columns that a workgroup makes, those a thread makes, and how fast that is."""

    m: int
    n: int
    block_m: int
    block_n: int
    at_once: float  # workgroups that keep a compute unit busy
    share: float  # of its multiply-adds, when it is busy: estimates that only have to order tiles

    @property
    def block(self) -> str:
        """What names its entry points."""
        return f"{self.block_m}x{self.block_n}"

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}_{self.block}"

    @property
    def threads(self) -> int:
        return self.m * self.n // (self.block_m * self.block_n)

    @property
    def constants(self) -> dict[str, int]:
        """Specialisation constants of the shader module `dense_blocks`: one slice of k."""
        return {"THREADS": self.threads, "TILE_M": self.m, "TILE_N": self.n, "SLICES": 1}


WEIGHTS = ("f32", "f16", "bf16")


def bindings(axes: str, weights: tuple[str, str], falls: str, sums: str) -> tuple[Binding, ...]:
    """Weights, x and y of a convolution over some axes; `weights` names their first dimensions."""
    taps = tuple(TAPS[axis] for axis in axes)
    return (
        declare_input("weights", WEIGHTS, (*weights, *taps), falls),
        declare_input(
            "x", ("f32",), ("n", "c", *axes), "arrays, one for each channel of each of n"
        ),
        declare_output("y", ("f32",), ("n", "o", *axes), sums),
    )


# Columns are pixels mostly, of which there are more than rows.
TILES = (
    Tile(m=128, n=128, block_m=8, block_n=8, at_once=1.0, share=0.63),
    Tile(m=64, n=128, block_m=8, block_n=8, at_once=1.4, share=0.55),
    Tile(m=128, n=64, block_m=8, block_n=8, at_once=1.4, share=0.55),
    Tile(m=64, n=64, block_m=8, block_n=8, at_once=2.7, share=0.47),
    Tile(m=32, n=64, block_m=4, block_n=4, at_once=2.0, share=0.23),
    Tile(m=32, n=32, block_m=4, block_n=4, at_once=4.0, share=0.23),
)
TILE = Param(
    default="auto",
    choices=("auto", *(tile.name for tile in TILES)),
    description="rows and columns of a workgroup and of a thread; auto: what should be fastest",
)


@dataclass(frozen=True, kw_only=True)
class Slide:
    """How windows lie along an axis; places count from the array's first one."""

    size: int  # of the array
    outputs: int  # windows
    taps: int  # of each; may be 0
    stride: int  # from window to window
    first: int  # place of the first window's first tap
    step: int  # from tap to tap

    @staticmethod
    def of(window: Window) -> Slide:
        return Slide(
            size=window.size,
            outputs=window.count,
            taps=window.taps,
            stride=window.stride,
            first=-window.padding,
            step=window.dilation,
        )

    @property
    def push(self) -> dict[str, int]:
        """Push constants of this axis in a shader's Windows."""
        by_outputs, by_taps = divisor(self.outputs), divisor(max(1, self.taps))
        return {
            "size": self.size,
            "outputs": self.outputs,
            "stride": self.stride,
            "first": self.first % 2**32,
            "step": self.step % 2**32,
            "by_outputs": by_outputs["multiplier"],
            "by_taps": by_taps["multiplier"],
            "packed": self.taps | by_outputs["shift"] << 16 | by_taps["shift"] << 21,
        }


_ONE = Slide(size=1, outputs=1, taps=1, stride=1, first=0, step=1)  # an axis that is not there


def vectors(slides: Sequence[Slide], axes: int) -> dict[str, tuple[int, ...]]:
    """What slides are, a vector each over so many axes, as the shaders' Windows have them."""
    present = [slide.push for slide in (*[_ONE] * (axes - len(slides)), *slides)]
    return {name: tuple(slide[name] for slide in present) for name in present[0]}


def choose(problem: Problem, device: DeviceFacts, rows: int, columns: int) -> Tile:
    """The tile that was asked for, or the one that should be fastest."""
    return rank_tiles(problem, device, rows, columns)[0]


def rank_tiles(problem: Problem, device: DeviceFacts, rows: int, columns: int) -> list[Tile]:
    """The tile that was asked for, or all, the one that should be fastest first."""
    named = [tile for tile in TILES if tile.name == problem.params.get("tile")]
    return sorted(named or TILES, key=lambda tile: _time(tile, device, rows, columns))


def _time(tile: Tile, device: DeviceFacts, rows: int, columns: int) -> float:
    groups = -(-rows // tile.m) * -(-columns // tile.n)
    return (max(groups, busy(device, tile.at_once)) + groups / 16) * tile.m * tile.n / tile.share


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot make a problem's products, or None."""
    for binding in problem.kernel.bindings:
        if (items := prod(problem.array_shape(binding.name))) >= MOST_DIVIDED:
            return f"{binding.name} has {items} numbers, the kernel counts to {MOST_DIVIDED}"
    taps = max(problem.shape[dim] for dim in "trs" if dim in problem.shape)
    if taps > _MOST_TAPS:
        return f"windows have {taps} taps along an axis, the kernel takes {_MOST_TAPS}"
    return too_large(problem, device)
