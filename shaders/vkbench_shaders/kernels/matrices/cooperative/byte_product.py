"""Products of quantised weights by cooperative matrices of bytes, with sums in 32-bit integers.

Vectors are rounded to bytes by a first launch, as q8_1 does it, or are blocks of q8_1 already; the
workgroups of a second one bring weights into shared memory as bytes. See byte_panels.slang and
byte_product.slang in slang/matrices/cooperative. `auto` never takes the path that rounds vectors to
bytes: on an H200 it takes 343 us of q4_0 where decoding to f16 takes 248 (m 4096, n 512, k 14336).
The path for blocks of q8_1 took 347 us there where dot products of bytes take 1067, so `auto` takes
it for products as large as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vkbench.device import NVIDIA, DeviceFacts
from vkbench_shaders.kernel import (
    Choice,
    Launch,
    Memory,
    Problem,
    Settings,
    Stage,
    Variant,
    grid,
)
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.shared import dense, limits
from vkbench_shaders.kernels.shared.cooperative.product import (
    Pose,
    Product,
    sums_bytes,
    too_much,
    why_pointless,
)
from vkbench_shaders.kernels.shared.cooperative.tiles import ROUNDS, MatrixShape, no_tiles
from vkbench_shaders.tuning.rates import busy

OF_BLOCKS: Final = "coopmat_i8"
ROUNDING: Final = "coopmat_via_q8_1"
STEP: Final = 64  # numbers along k at a time
_BLOCK: Final = 32  # numbers that share a scale
_STEP_BLOCKS: Final = STEP // _BLOCK
_STAGES: Final = 2
_LINE: Final = 5  # 16 bytes each, of a row in shared memory
_THREADS: Final = 64  # of workgroups that make panels
_ROUNDERS: Final = 4  # lanes that round a block, where they can shuffle
_SHUFFLE: Final = "subgroup_shuffle"
_LEAST_STEPS: Final = 4  # of a part of k
# formats with one scale for 32 weights beside bytes -> the shaders' type of their pieces
_PIECES: Final[Mapping[str, str]] = {
    "q4_0": "q4_0_piece",
    "q8_0": "q8_0_piece",
    "q3_K": "q3_K_piece",
    "q4_K": "q4_K_piece",
    **{
        fmt: f"AnyPiece<{fmt}>"
        for fmt in ("q4_1", "q5_0", "q5_1", "q5_K", "mxfp4", "iq4_nl", "iq4_xs")
    },
}
_AFFINE: Final = ("q4_1", "q5_1", "q4_K", "q5_K")
_TABLES: Final[Mapping[str, int]] = {"iq4_nl": 1024, "iq4_xs": 1024}  # bytes of shared memory


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Vectors and rows of weights of a workgroup, and how its subgroups share them."""

    vectors: int
    rows: int
    shape: MatrixShape
    feature: str  # of the device, that says that it has the matrices
    lanes: int  # of a subgroup
    tall: int  # matrices' worth of rows, of a subgroup
    wide: int  # matrices' worth of vectors
    resident: int = 1  # workgroups that a multiprocessor holds
    cost: float = 1.0  # time of a product beside that by 128 x 128

    @property
    def name(self) -> str:
        """What users ask for."""
        return f"coop_{self.vectors}x{self.rows}"

    @property
    def entry(self) -> str:
        """Its entry point in the shader module `byte_product`."""
        return f"bytes_{self.vectors}x{self.rows}_{self.shape.name}"

    @property
    def threads(self) -> int:
        own = self.shape.m * self.tall * self.shape.n * self.wide
        return self.vectors * self.rows // own * self.lanes

    @property
    def shared_lines(self) -> int:
        """Shared memory for bytes, in 16 bytes: the last line of a stage needs no gap behind it."""
        return _STAGES * (self.vectors + self.rows) * _LINE - 1

    def scale_fours(self, weights: str) -> int:
        """Shared memory for the scales of rows and vectors, and their minima, in 16 bytes."""
        along = self.vectors // (self.shape.n * self.wide)
        # lanes of 8 x 8 matrices have whole fours, which one or two matrices do not fill
        of_vectors = (
            along * 8 * -(-self.wide // 4) if self.lanes == self.shape.n else self.vectors // 4
        )
        fours = self.rows // 4 + of_vectors
        return _STAGES * _STEP_BLOCKS * fours * (2 if weights in _AFFINE else 1)

    def shared_bytes(self, weights: str) -> int:
        """Shared memory in bytes, with a format's table and one item of arrays that are not used.

        It has no matrices in row-major order, which tiles need where the order of lanes is unknown.
        """
        lines = self.shared_lines + self.scale_fours(weights)
        unused = 4 + (8 if self.shape.k >= 16 else 16)  # `passing`; `narrow` or `shared`
        return 16 * lines + _TABLES.get(weights, 0) + unused


_LARGE = MatrixShape(m=16, n=16, k=32)
_SMALL = MatrixShape(m=8, n=8, k=8)
_OF_GPUS = "matrix_i8_i32"
TILES: Final = (
    Tile(vectors=128, rows=128, shape=_LARGE, feature=_OF_GPUS, lanes=32, tall=4, wide=2),
    Tile(
        vectors=64,
        rows=64,
        shape=_LARGE,
        feature=_OF_GPUS,
        lanes=32,
        tall=2,
        wide=2,
        resident=2,
        cost=1.6,
    ),
    Tile(
        vectors=16,
        rows=32,
        shape=_SMALL,
        feature="matrix_i8_i32_8x8x8",
        lanes=8,
        tall=1,
        wide=1,
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """How a product is shared out."""

    tile: Tile
    padded: int  # vectors of a panel
    blocks: int  # of a row of weights
    cut: dense.Cut

    @property
    def steps(self) -> int:
        """Steps along k that workgroups share."""
        return -(-self.blocks // _STEP_BLOCKS)


def _list_tiles(problem: Problem, device: DeviceFacts) -> list[Tile]:
    """The tiles that the case allows and whose matrices and threads the device has."""
    return [
        tile
        for tile in TILES
        if problem.params["tile"] in ("auto", tile.name)
        and tile.feature in device.features
        and tile.lanes == device.subgroup_size
        and tile.threads <= device.limits["max_workgroup_invocations"]
    ]


def _tiles(problem: Problem, device: DeviceFacts) -> list[Tile]:
    """The tiles that the case allows and the device can run, the fastest first by `_time`."""
    able = [
        tile
        for tile in _list_tiles(problem, device)
        if limits.fits_shared(_shared_bytes(problem, device, tile), device)
    ]
    return sorted(able, key=lambda tile: _time(problem, device, tile))


def _shared_bytes(problem: Problem, device: DeviceFacts, tile: Tile) -> int:
    """The most shared memory that a tile may take on a device."""
    # a matrix for each subgroup, where lanes' order of elements may be unknown
    passing = 0 if device.vendor_id == NVIDIA else 32 * tile.threads
    return tile.shared_bytes(problem.types["weights"]) + passing


def _time(problem: Problem, device: DeviceFacts, tile: Tile) -> float:
    """Time by which tiles are ordered: rounds of tiles on a busy GPU."""
    groups = -(-problem.shape["n"] // tile.vectors) * -(-problem.shape["m"] // tile.rows)
    at_once = busy(device, tile.resident)
    return -(-groups // at_once) * at_once * tile.vectors * tile.rows * tile.cost


def _is_large(problem: Problem, device: DeviceFacts) -> bool:
    """Whether half of the multiprocessors, at least, have a largest tile."""
    tile = TILES[0]
    if tile.feature not in device.features:
        return False
    groups = (problem.shape["n"] // tile.vectors) * (problem.shape["m"] // tile.rows)
    return 2 * groups >= busy(device, tile.resident)


def _plan(problem: Problem, product: Product, device: DeviceFacts) -> _Plan:
    """The tile that should be fastest, with parts of k for all multiprocessors."""
    tile = next(iter(_tiles(problem, device)), TILES[0])
    n, m = product.left.rows, product.right.rows
    tiles = -(-n // tile.vectors) * -(-m // tile.rows) * product.results["matrices"]
    steps = -(-product.left.numbers // STEP)
    parts = min(busy(device, tile.resident) // tiles, steps // _LEAST_STEPS)
    return _Plan(
        tile=tile,
        padded=-(-n // tile.vectors) * tile.vectors,
        cut=dense.Cut.into(max(1, parts), product.left.numbers, STEP),
        blocks=product.left.numbers // _BLOCK,
    )


def _scratch(product: Product, plan: _Plan) -> tuple[int, ...]:
    """Bytes of sums over parts of k, of panels of vectors, and of their scales."""
    blocks = product.left.matrices * plan.steps * _STEP_BLOCKS * plan.padded
    return sums_bytes(product, plan.cut), blocks * _BLOCK, blocks * 8


def _round(problem: Problem, product: Product, plan: _Plan, device: DeviceFacts) -> Launch:
    """The launch that makes panels of the vectors."""
    is_blocks = products.is_blocks(problem.types)
    by_lanes = not is_blocks and _SHUFFLE in device.features and device.subgroup_size >= _ROUNDERS
    units = plan.steps * _STEP_BLOCKS
    blocks = product.left.matrices * units * plan.padded
    groups = grid(-(-blocks * (_ROUNDERS if by_lanes else 1) // _THREADS))
    kind = "_of_blocks" if is_blocks else "_by_lanes" if by_lanes else ""
    return Launch(
        entry=f"byte_panels{kind}",
        groups=groups,
        push={
            "vectors": product.left.rows,
            "blocks": plan.blocks,
            "padded": plan.padded,
            "units": units,
            "matrices": product.left.matrices,
            "groups_x": groups[0],
            "first": product.left.first,
            "row": product.left.row,
            "matrix": product.left.matrix,
        },
        constants={"THREADS": _THREADS, "ALIGNED": products.are_rows_aligned(problem)},
    )


def _launches(problem: Problem, product: Product, device: DeviceFacts) -> tuple[Launch, ...]:
    """Make panels, multiply, and add up the parts of k."""
    plan = _plan(problem, product, device)
    tile, cut = plan.tile, plan.cut
    tiles_m = -(-product.right.rows // tile.rows)
    groups = grid(tiles_m * (plan.padded // tile.vectors), product.results["matrices"] * cut.parts)
    is_wide = tile.shape.k >= 16
    multiply = Launch(
        entry=tile.entry,
        groups=groups,
        push={
            "y": product.results,
            "blocks": plan.blocks,
            "steps": plan.steps,
            "part": cut.part // STEP,
            "tiles_m": tiles_m,
            "groups_x": groups[0],
            "padded": plan.padded,
            "weights": product.right.bytes_at(1),
        },
        constants={
            "THREADS": tile.threads,
            "SHARED": tile.shared_lines if is_wide else 1,
            "NARROW": 1 if is_wide else 2 * tile.shared_lines,
            "SCALES": tile.scale_fours(problem.types["weights"]),
            "FUSED": device.vendor_id == NVIDIA,
            "Y_WIDE": product.y_wide,
            "SPLIT": cut.parts > 1,
            "SUMS_WIDE": product.results["n"] % 4 == 0,
        },
    )
    sums = dense.sums(product.results, cut, y_wide=product.y_wide)
    return (_round(problem, product, plan, device), multiply, *sums)


def _refuses(problem: Problem, product: Product, device: DeviceFacts) -> str | None:
    named = problem.params["tile"]
    if named not in ("auto", *(tile.name for tile in TILES)):
        return no_tiles(named)
    if not (listed := _list_tiles(problem, device)):
        of = "" if named == "auto" else f" for tiles of {named}"
        return f"needs cooperative matrices of bytes{of}, which {device.name} lacks"
    if not _tiles(problem, device):
        least, tile = min((_shared_bytes(problem, device, tile), tile.name) for tile in listed)
        has = device.limits["max_shared_bytes"]
        return limits.too_much_shared(least, has, f"a tile of {tile}")
    reason = why_pointless(product)
    if reason and not (reason == ROUNDS and products.is_blocks(problem.types)):  # those are bytes
        return reason
    plan = _plan(problem, product, device)
    scratch = _scratch(product, plan)
    return too_much(product, plan.cut, scratch, device) or limits.too_far(problem, device)


def variants(pose: Pose) -> tuple[Variant, ...]:
    """The code paths of a kernel: of vectors that are rounded, and of blocks of q8_1."""
    rounding = tuple(
        Stage(entry=entry, module="byte_panels", arguments=lambda types: (types["x"],), requires=of)
        for entry, of in (("byte_panels", ()), ("byte_panels_by_lanes", (_SHUFFLE,)))
    )
    of_blocks = (Stage(entry="byte_panels_of_blocks", module="byte_panels"),)
    return (
        _variant(ROUNDING, pose, rounding, "int8", is_blocks=False),
        _variant(OF_BLOCKS, pose, of_blocks, "f32", is_blocks=True),
    )


def _variant(
    name: str, pose: Pose, panels: tuple[Stage, ...], arithmetic: str, *, is_blocks: bool
) -> Variant:
    def arguments(types: Mapping[str, str]) -> tuple[str]:
        return (_PIECES[types["weights"]],)

    takes = products.is_blocks if is_blocks else products.is_numbers

    def accepts(types: Mapping[str, str]) -> bool:
        return types["weights"] in _PIECES and takes(types)

    def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
        return _launches(problem, pose(problem, "f32"), device)

    def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
        product = pose(problem, "f32")
        return _scratch(product, _plan(problem, product, device))

    def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
        return [{"tile": tile.name} for tile in _tiles(problem, device)]

    own, *others = (
        Stage(entry=tile.entry, module="byte_product", arguments=arguments) for tile in TILES
    )
    return Variant(
        name=name,
        module=own.module,
        entry=own.entry,
        arguments=arguments,
        more=(
            *others,
            *panels,
            Stage(entry="add_parts", module="matmul", arguments=lambda types: (types["y"],)),
        ),
        launch=launch,
        own=Memory(scratch=scratch, names=("sums", "panels", "scales")),
        arithmetic=arithmetic,
        requires=("coopmat", "device_scope", "subgroup_basic", "int8"),
        accepts=accepts,
        refuses=lambda problem, device: _refuses(problem, pose(problem, "f32"), device),
        choice=Choice(
            suits=lambda problem, device: is_blocks and _is_large(problem, device),
            only_by_name=lambda types: not is_blocks,
            candidates=candidates,
        ),
    )
