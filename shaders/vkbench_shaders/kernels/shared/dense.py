"""Products of dense matrices: where operands lie, and the tiles that a product is cut into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Push, grid
from vkbench_shaders.tuning.rates import Rates, rates_of

STEP = 16  # numbers along k at a time
LONGEST = 1024  # products that are added up in a row; sums of more wait in scratch
_FOUR = 4  # numbers loaded or stored at a time
_SUM_THREADS = 128
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
_LEAST_PART = 64  # of k, where it is split without being asked
_SUM_BYTES = 8  # of a number that is written and read again where k is split


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How k is cut: parts of so many numbers, the last one may be shorter."""

    part: int
    parts: int

    @staticmethod
    def into(parts: int, k: int, step: int = STEP) -> Cut:
        """A cut into at most so many parts of whole steps."""
        part = max(1, -(-k // (parts * step))) * step
        return Cut(part=part, parts=max(1, -(-k // part)))


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows and columns that a workgroup makes, those a thread makes, and how fast that is."""

    m: int
    n: int
    block_m: int
    block_n: int
    slices: int = 1  # of k, each summed by as many threads
    at_once: float  # workgroups that keep a compute unit busy
    most: float  # workgroups that it holds
    share: float  # of its multiply-adds, when it is busy: estimates that only have to order tiles

    @property
    def name(self) -> str:
        sliced = f"x{self.slices}" if self.slices > 1 else ""
        return f"{self.m}x{self.n}_{self.block_m}x{self.block_n}{sliced}"

    @property
    def entry(self) -> str:
        """Its entry point in the shader module `matmul`."""
        return f"matmul_{self.block_m}x{self.block_n}"

    @property
    def threads(self) -> int:
        return self.slices * self.m * self.n // (self.block_m * self.block_n)

    @property
    def step(self) -> int:
        """Numbers along k that a workgroup takes at a time."""
        return STEP * self.slices

    def cut(self, parts: int, k: int) -> Cut:
        """k in so many parts, or in more: slices add up LONGEST products each, at most."""
        least = -(-k // (LONGEST * self.slices)) if self.slices > 1 else 1
        return Cut.into(max(parts, least), k, self.step)

    def waits(self, cut: Cut) -> bool:
        """Whether sums wait in scratch until more of their part is added."""
        return self.slices == 1 and cut.part > LONGEST

    @property
    def constants(self) -> dict[str, int]:
        """Specialisation constants of the shader module `dense_blocks`."""
        return {
            "THREADS": self.threads,
            "TILE_M": self.m,
            "TILE_N": self.n,
            "SLICES": self.slices,
        }


@dataclass(frozen=True, kw_only=True)
class Way:
    """A tile and a cut of k, and about how long a product takes with them."""

    tile: Tile
    cut: Cut
    split: int  # parts that the cut was asked to have
    seconds: float


TILES = (
    Tile(m=128, n=128, block_m=8, block_n=8, at_once=1.0, most=1.5, share=0.70),
    Tile(m=128, n=64, block_m=8, block_n=8, at_once=1.4, most=3.0, share=0.67),
    Tile(m=64, n=64, block_m=8, block_n=8, at_once=2.7, most=6.0, share=0.59),
    Tile(m=64, n=64, block_m=8, block_n=8, slices=2, at_once=1.4, most=3.0, share=0.56),
    Tile(m=128, n=64, block_m=8, block_n=4, at_once=1.0, most=2.0, share=0.56),
    Tile(m=64, n=64, block_m=8, block_n=4, at_once=2.0, most=4.0, share=0.53),
    Tile(m=128, n=32, block_m=8, block_n=4, at_once=2.0, most=4.0, share=0.47),
    Tile(m=64, n=32, block_m=8, block_n=4, at_once=4.0, most=8.0, share=0.44),
    Tile(m=64, n=32, block_m=8, block_n=4, slices=2, at_once=2.0, most=4.0, share=0.41),
    Tile(m=32, n=32, block_m=4, block_n=4, at_once=4.0, most=12.0, share=0.31),
    Tile(m=32, n=32, block_m=4, block_n=4, slices=4, at_once=1.0, most=3.0, share=0.28),
)

TILE = Param(
    default="auto",
    choices=("auto", *(tile.name for tile in TILES)),
    description="rows and columns of a workgroup and of a thread; auto: what should be fastest",
)
SPLIT = Param(
    default=0,
    least=0,
    description="parts that k is cut into, each summed by other workgroups; 0: as many as help",
)


def repeat(binding: str) -> Param:
    """How many matrices of y one of an operand is for."""
    return Param(default=1, least=1, description=f"matrices of y that one of {binding} is for")


@dataclass(frozen=True, kw_only=True)
class Operand:
    """Where an operand's numbers lie; its rows are those of a, or columns of b."""

    first: int
    row: int  # from row to row
    k: int  # along k
    matrix: int  # from matrix to matrix
    serves: int  # matrices of y that one of it is for
    along: bool  # whether rows are without gaps, rather than columns
    wide: bool  # whether their fours begin on four numbers, and are whole

    @property
    def push(self) -> dict[str, int]:
        """Push constants of the shaders' struct Operand."""
        return {name: getattr(self, name) for name in ("first", "row", "k", "matrix", "serves")}


# of the launch that adds up parts of k
_NO_OPERAND = Operand(first=0, row=0, k=0, matrix=0, serves=0, along=False, wide=False)


def matrices(problem: Problem, binding: str) -> int:
    """How many matrices a binding has."""
    repeats = int(problem.params.get(f"repeat_{binding}", 1))
    return ceil(problem.shape["b"] / repeats)


def operand(problem: Problem, binding: str) -> Operand:
    """An operand's place, and how its numbers are best loaded."""
    layout, dims = problem.layout(binding), problem.kernel.binding(binding).dims
    k_axis = dims.index("k")
    row_axis = 3 - k_axis
    matrix, row, k = (layout.strides[axis] for axis in (0, row_axis, k_axis))
    rows_, numbers = layout.shape[row_axis], layout.shape[k_axis]
    wide_rows = k == 1 and _is_wide(numbers, layout.offset, matrix, row)
    wide_columns = row == 1 and _is_wide(rows_, layout.offset, matrix, k)
    along = wide_rows or (k == 1 and not wide_columns)
    return Operand(
        first=layout.offset,
        row=row,
        k=k,
        matrix=matrix,
        serves=int(problem.params.get(f"repeat_{binding}", 1)),
        along=along,
        wide=wide_rows or wide_columns,
    )


def _is_wide(*numbers: int) -> bool:
    return all(number % _FOUR == 0 for number in numbers)


def choose(problem: Problem, device: DeviceFacts) -> tuple[Tile, Cut]:
    """The tile and the cut of k that were asked for, or those that should be fastest."""
    best = ways(problem, device)[0]
    return best.tile, best.cut


def ways(problem: Problem, device: DeviceFacts) -> list[Way]:
    """The tiles and cuts that a problem leaves open, the one that should be fastest first."""
    rates = rates_of(device)
    named, split, k = problem.params.get("tile", "auto"), asked_parts(problem), problem.shape["k"]
    by_cut: dict[tuple[Tile, Cut], Way] = {}
    for tile in TILES if named == "auto" else [tile for tile in TILES if tile.name == named]:
        for parts in (split,) if split else SPLITS:
            cut = tile.cut(parts, k)
            if cut.parts == 1 or split or cut.part >= _LEAST_PART:
                seconds = _seconds(problem, rates, tile, cut)
                by_cut.setdefault(
                    (tile, cut), Way(tile=tile, cut=cut, split=parts, seconds=seconds)
                )
    return sorted(by_cut.values(), key=lambda way: way.seconds)


def nearest_parts(usual: int, k: int) -> list[int]:
    """Numbers of parts that k may be cut into, those nearest to the usual one first."""
    possible = {usual, *(parts for parts in SPLITS if parts * _LEAST_PART <= k)}
    return sorted(possible, key=lambda parts: max(parts, usual) / min(parts, usual))


def asked_parts(problem: Problem) -> int:
    """Parts of k that the case or its settings name, or 0."""
    return int(problem.params.get("split", 0))


def _seconds(problem: Problem, rates: Rates, tile: Tile, cut: Cut) -> float:
    b, m, n = (problem.shape[dim] for dim in "bmn")
    groups = -(-m // tile.m) * -(-n // tile.n) * b * cut.parts
    busy = max(groups, rates.busy(tile.at_once)) + groups / 16  # of two alike, the smaller one
    flops = rates.fma * rates.compute_units * tile.share
    products = 2 * busy * tile.m * tile.n * cut.part / flops
    step = rates.workgroup_seconds + rates.step_seconds * cut.part / tile.step
    waits = -(-groups // rates.busy(tile.most)) * step
    summed = b * m * n * cut.parts * _SUM_BYTES / rates.memory_bytes
    sums = rates.launch_seconds + summed if cut.parts > 1 else 0.0
    return max(products, waits) + min(products, waits) / 10 + sums


def launch_tiles(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Launches that make a product tile by tile."""
    tile, cut = choose(problem, device)
    b, m, n, k = (problem.shape[dim] for dim in "bmnk")
    tiles_m, tiles = -(-m // tile.m), -(-m // tile.m) * -(-n // tile.n)
    groups = grid(tiles, b * cut.parts)
    left, right = operand(problem, "a"), operand(problem, "b")
    constants = {
        **tile.constants,
        "A_ALONG": left.along,
        "A_WIDE": left.wide,
        "B_ALONG": right.along,
        "B_WIDE": right.wide,
        "Y_WIDE": is_wide_y(problem),
        "SPLIT": cut.parts > 1,
        "SUMS_WIDE": n % _FOUR == 0,
        "LONG": tile.waits(cut),
    }
    push: Push = {
        "y": results(problem),
        "k": k,
        "part": cut.part,
        "parts": cut.parts,
        "tiles_m": tiles_m,
        "groups_x": groups[0],
        "a": left.push,
        "b": right.push,
    }
    product = Launch(groups=groups, push=push, constants=constants, entry=tile.entry)
    return (product, *sums(results(problem), cut, y_wide=is_wide_y(problem)))


def sums(results: Mapping[str, int], cut: Cut, *, y_wide: bool) -> Iterator[Launch]:
    """The launch that adds up the parts of k into `results`, where there are several."""
    if cut.parts == 1:
        return
    rows_of_all, n = results["matrices"] * results["m"], results["n"]
    groups = grid(-(-rows_of_all * -(-n // _FOUR) // _SUM_THREADS))
    constants = {
        "THREADS": _SUM_THREADS,
        "Y_WIDE": y_wide,
        "SPLIT": 0,
        "SUMS_WIDE": n % _FOUR == 0,
    }
    push: Push = {
        "y": results,
        "k": 0,
        "part": 0,
        "parts": cut.parts,
        "tiles_m": 0,
        "groups_x": groups[0],
        "a": _NO_OPERAND.push,
        "b": _NO_OPERAND.push,
    }
    yield Launch(groups=groups, push=push, constants=constants, entry="add_parts")


def results(problem: Problem) -> dict[str, int]:
    """The shaders' Results: sizes of y, and where it lies."""
    layout = problem.layout("y")
    return {
        "m": problem.shape["m"],
        "n": problem.shape["n"],
        "matrices": problem.shape["b"],
        "first": layout.offset,
        "row": layout.strides[1],
        "matrix": layout.strides[0],
    }


def is_wide_y(problem: Problem) -> bool:
    """Whether rows of y begin on four numbers, and are whole fours."""
    layout = problem.layout("y")
    return _is_wide(layout.shape[2], layout.offset, *layout.strides[:2])
