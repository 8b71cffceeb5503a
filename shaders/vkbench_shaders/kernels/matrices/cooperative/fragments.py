"""Products of few vectors by cooperative matrices whose elements lanes decode themselves.

A lane makes those elements of the left factor that are its own, so that weights do not pass through
shared memory. See slang/matrices/cooperative/fragment_product.slang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import MOST_GROUPS, Choice, Launch, Problem, Variant, grid
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.shared import limits
from vkbench_shaders.kernels.shared.cooperative.product import (
    Pose,
    Product,
    weights_stages,
    why_pointless,
)
from vkbench_shaders.kernels.shared.cooperative.tiles import (
    LARGE,
    NARROW,
    SMALL,
    MatrixShape,
    lacks,
    no_tiles,
)
from vkbench_shaders.launch import power_of_two

NAME: Final = "coopmat_fragments"
_UNIT = 32  # weights that a lane decodes at a time
_EIGHT = 8  # numbers in 16 bytes
_MOST_VECTORS = 16  # up to which `auto` takes it: as many as one workgroup makes
_FEWEST_ROWS = 32  # of weights, from which on it does
_WIDE = 4  # numbers of the widest load


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """Matrices of a device: as many columns as vectors of a workgroup."""

    shape: MatrixShape
    lanes: int  # of a subgroup
    sharing: int  # of them, that share a row of the left factor
    most_subgroups: int  # of a workgroup
    most_tall: int = 2  # matrices' worth of rows of weights, of a workgroup

    @property
    def entry(self) -> str:
        """Its entry point in the shader module `fragment_product`."""
        return f"fragments_{self.shape.name}"

    def is_of(self, device: DeviceFacts) -> bool:
        has = self.shape.feature("f16", "f32") in device.features
        return has and device.subgroup_size == self.lanes


# The fewest vectors come first.
_KINDS = (
    _Kind(shape=NARROW, lanes=32, sharing=4, most_subgroups=16),
    _Kind(shape=LARGE, lanes=32, sharing=4, most_subgroups=8),
    _Kind(shape=SMALL, lanes=8, sharing=8, most_subgroups=4, most_tall=1),
)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """How a product is shared out."""

    kind: _Kind
    tall: int  # matrices' worth of rows of weights, of a workgroup
    subgroups: int
    groups: tuple[int, int]  # tiles along vectors, and along rows of weights
    chunks: int  # along k

    @property
    def shared_eights(self) -> int:
        """Shared memory in 16 bytes: a chunk of vectors for each subgroup, later its sums."""
        shape = self.kind.shape
        chunk = (self.kind.sharing * _UNIT // _EIGHT + 1) * shape.n
        return self.subgroups * max(chunk, self.tall * shape.m * shape.n // 4)


def _kind(product: Product, device: DeviceFacts) -> _Kind | None:
    """The matrices with the fewest columns that hold all vectors, else with the most."""
    able = [kind for kind in _KINDS if kind.is_of(device)]
    holds = (kind for kind in able if kind.shape.n >= product.left.rows)
    return next(holds, able[-1] if able else None)


def _plan(problem: Problem, product: Product, device: DeviceFacts) -> _Plan:
    """Two matrices' worth of rows a workgroup, where these leave no multiprocessor without any."""
    kind = _kind(product, device) or _KINDS[0]
    n, m = product.left.rows, product.right.rows
    tiles_m = -(-n // kind.shape.n)
    twos = -(-m // (2 * kind.shape.m)) * tiles_m * product.results["matrices"]
    tall = kind.most_tall if twos > device.compute_units // 2 else 1
    chunks = -(-product.left.numbers // (_UNIT * kind.sharing))
    subgroups = min(kind.most_subgroups, power_of_two(chunks))
    most = device.limits["max_workgroup_invocations"] // kind.lanes
    room = products.room(problem, device)
    groups = (tiles_m, -(-m // (tall * kind.shape.m)))
    while True:
        plan = _Plan(kind=kind, tall=tall, subgroups=subgroups, groups=groups, chunks=chunks)
        if subgroups == 1 or (subgroups <= most and 16 * plan.shared_eights <= room):
            return plan
        subgroups //= 2


def _launch(problem: Problem, product: Product, device: DeviceFacts) -> Launch:
    plan = _plan(problem, product, device)
    kind, (tiles_m, tiles_n) = plan.kind, plan.groups
    groups = grid(tiles_m * tiles_n, product.results["matrices"])
    return Launch(
        groups=groups,
        push={
            "y": product.results,
            "units": product.left.numbers // _UNIT,
            "turns": -(-plan.chunks // plan.subgroups),
            "tiles_m": tiles_m,
            "groups_x": groups[0],
            "x": product.left.bytes_at(problem.item_bytes("x")),
            "weights": product.right.bytes_at(1),
        },
        constants={
            "THREADS": plan.subgroups * kind.lanes,
            "SHARED": plan.shared_eights,
            "TALL": plan.tall > 1,
            "X_F16": problem.types["x"] == "f16",
            "Y_WIDE": product.y_wide,
            "SPLIT": 0,
            "SUMS_WIDE": 1,
        },
        entry=kind.entry,
    )


def _refuses(problem: Problem, product: Product, device: DeviceFacts) -> str | None:
    tile = problem.params.get("tile", "auto")
    if tile != "auto":
        return no_tiles(tile)
    if _kind(product, device) is None:
        return lacks(device, "f16", "f32", "auto")
    if reason := why_pointless(product):
        return reason
    if not products.is_wide(problem, "x", _WIDE):
        return "rows of plain numbers are no whole fours that begin at 16 bytes"
    plan = _plan(problem, product, device)
    room = products.room(problem, device)
    if reason := limits.too_much_shared(16 * plan.shared_eights, room):
        return reason
    if product.results["matrices"] > MOST_GROUPS:
        matrices = product.results["matrices"]
        return f"y has {matrices} matrices, one launch takes {MOST_GROUPS} at most"
    return limits.too_far(problem, device)


def variant(
    pose: Pose, takes: Callable[[Mapping[str, str]], bool], *, only_by_name: bool = False
) -> Variant:
    """The code path of a kernel: what a case multiplies, and which formats."""

    def suits(problem: Problem, device: DeviceFacts) -> bool:
        """Matrices of 8 x 8 are those of CPU drivers."""
        if LARGE.feature("f16", "f32") not in device.features:
            return False
        shape = problem.shape
        return shape["n"] <= _MOST_VECTORS and shape["m"] >= _FEWEST_ROWS

    own, *others = weights_stages("fragment_product", (kind.entry for kind in _KINDS))
    return Variant(
        name=NAME,
        module=own.module,
        entry=own.entry,
        arguments=own.arguments,
        more=(*others,),
        launch=lambda problem, device: _launch(problem, pose(problem, "f32"), device),
        arithmetic="f16_inputs",
        requires=("coopmat", "device_scope", "subgroup_basic", "fp16"),
        accepts=lambda types: takes(types) and format_named(types["weights"]).quantised,
        refuses=lambda problem, device: _refuses(problem, pose(problem, "f32"), device),
        choice=Choice(
            suits=suits,
            only_by_name=lambda types: only_by_name,
            candidates=lambda problem, device: [{}],
        ),
    )
