"""Products of few vectors by cooperative matrices, whose workgroups decode weights themselves.

Packing all weights first takes as long as writing and reading them in f16, however few vectors
there are. On an H100 (m 4096, n 16, k 14336) the product of q4_K takes 48 us instead of 129, that
of f16 60 instead of 84. See slang/matrices/cooperative/decoding_product.slang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Choice, Launch, Memory, Problem, Stage, Variant, grid
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.shared import dense, limits
from vkbench_shaders.kernels.shared.cooperative.product import (
    Pose,
    Product,
    sums_bytes,
    too_much,
    weights_stages,
    why_pointless,
)
from vkbench_shaders.kernels.shared.cooperative.tiles import (
    LARGE,
    SMALL,
    MatrixShape,
    lacks,
    no_tiles,
)
from vkbench_shaders.tuning.rates import busy
from vkbench_shaders.tuning.thresholds import FewVectors, thresholds

NAME: Final = "coopmat_decoding"
_MOST_TALL = 2  # matrices of vectors in a tile: more leave registers for fewer workgroups
_WIDE = 8  # numbers of the widest load of f16


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows of weights that a workgroup takes, and numbers along k at a time."""

    shape: MatrixShape
    rows: int
    subgroups: int
    depth: int

    @property
    def entry(self) -> str:
        """Its entry point in the shader module `decoding_product`."""
        return f"decoding_{self.shape.name}"


_TILES = (
    Tile(shape=LARGE, rows=128, subgroups=8, depth=64),
    Tile(shape=SMALL, rows=32, subgroups=2, depth=32),
)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """How a product is shared out."""

    tile: Tile
    tall: int  # matrices of vectors in a tile
    groups: tuple[int, int]  # tiles along vectors, and along rows of weights
    cut: dense.Cut

    @property
    def shared_eights(self) -> int:
        """Shared memory in 16 bytes: a step of both factors, later rows of sums."""
        tile, vectors = self.tile, self.tall * self.tile.shape.m
        line = tile.rows // tile.subgroups // 4 + 1
        step = (vectors + tile.rows) * (tile.depth // _WIDE + 1)
        return max(step, tile.subgroups * tile.shape.m * line)


def _tile(device: DeviceFacts) -> Tile | None:
    """The tile of the matrices that a device has."""
    able = (tile for tile in _TILES if tile.shape.feature("f16", "f32") in device.features)
    return next(able, None)


def _plan(product: Product, device: DeviceFacts) -> _Plan:
    """The plan whose tiles share vectors evenly, with parts of k for all multiprocessors."""
    tile = _tile(device) or _TILES[0]
    n, side = product.left.rows, tile.shape.m
    tiles_m = -(-n // (_MOST_TALL * side))
    tall = -(-n // (tiles_m * side))
    groups = (tiles_m, -(-product.right.rows // tile.rows))
    measured = thresholds(device, FewVectors)
    parts = busy(device, measured.resident) // (groups[0] * groups[1] * product.results["matrices"])
    most = product.left.numbers // (measured.least_steps * tile.depth)
    cut = dense.Cut.into(max(1, min(parts, most)), product.left.numbers, tile.depth)
    return _Plan(tile=tile, tall=tall, groups=groups, cut=cut)


def _scratch(product: Product, device: DeviceFacts) -> tuple[int, ...]:
    """Bytes of sums over parts of k."""
    return (sums_bytes(product, _plan(product, device).cut),)


def _launches(problem: Problem, product: Product, device: DeviceFacts) -> tuple[Launch, ...]:
    """Multiply, and add up the parts of k."""
    plan = _plan(product, device)
    tile, cut, (tiles_m, tiles_n) = plan.tile, plan.cut, plan.groups
    groups = grid(tiles_m * tiles_n, product.results["matrices"] * cut.parts)
    only = Launch(
        groups=groups,
        push={
            "y": product.results,
            "k": product.left.numbers,
            "steps": -(-product.left.numbers // tile.depth),
            "part": cut.part // tile.depth,
            "tiles_m": tiles_m,
            "groups_x": groups[0],
            "x": product.left.bytes_at(problem.item_bytes("x")),
            "weights": product.right.bytes_at(problem.item_bytes("weights")),
        },
        constants={
            "THREADS": tile.subgroups * device.subgroup_size,
            "SHARED": plan.shared_eights,
            "TALL": plan.tall,
            "X_F16": problem.types["x"] == "f16",
            "Y_WIDE": product.y_wide,
            "SPLIT": cut.parts > 1,
            "SUMS_WIDE": product.results["n"] % 4 == 0,
        },
        entry=tile.entry,
    )
    return (only, *dense.sums(product.results, cut, y_wide=product.y_wide))


def _refuses(problem: Problem, product: Product, device: DeviceFacts) -> str | None:
    if problem.params["tile"] != "auto":
        return no_tiles(problem.params["tile"])
    if _tile(device) is None:
        return lacks(device, "f16", "f32", "auto")
    if reason := why_pointless(product):
        return reason
    if not all(products.is_wide(problem, name, _WIDE) for name in ("x", "weights")):
        return "rows of plain numbers are no whole eights that begin at 16 bytes"
    plan = _plan(product, device)
    room = products.room(problem, device)
    if reason := limits.too_much_shared(16 * plan.shared_eights, room):
        return reason
    scratch = (sums_bytes(product, plan.cut),)
    return too_much(product, plan.cut, scratch, device) or limits.too_far(problem, device)


def _suits(problem: Problem, device: DeviceFacts) -> bool:
    """Whether vectors are few, and weights are not; matrices of 8 x 8 are those of CPU drivers."""
    if LARGE.feature("f16", "f32") not in device.features:
        return False
    measured, shape = thresholds(device, FewVectors), problem.shape
    return shape["n"] <= measured.decoding_vectors and shape["m"] >= measured.rows


def variant(
    pose: Pose,
    takes: Callable[[Mapping[str, str]], bool],
    rounds: Callable[[Mapping[str, str]], bool],
) -> Variant:
    """The code path of a kernel: what a case multiplies, formats, and which of them it rounds."""

    own, *others = weights_stages("decoding_product", (tile.entry for tile in _TILES))
    return Variant(
        name=NAME,
        module=own.module,
        entry=own.entry,
        arguments=own.arguments,
        more=(
            *others,
            Stage(entry="add_parts", module="matmul", arguments=lambda types: (types["y"],)),
        ),
        launch=lambda problem, device: _launches(problem, pose(problem, "f32"), device),
        own=Memory(scratch=lambda problem, device: _scratch(pose(problem, "f32"), device)),
        arithmetic="f16_inputs",
        requires=("coopmat", "device_scope", "subgroup_basic", "fp16"),
        accepts=lambda types: takes(types) and types["weights"] != "bf16",
        refuses=lambda problem, device: _refuses(problem, pose(problem, "f32"), device),
        choice=Choice(
            suits=_suits,
            only_by_name=rounds,
            candidates=lambda problem, device: [{"tile": "auto"}],
        ),
    )
