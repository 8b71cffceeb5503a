"""The code path of convolutions by cooperative matrices: one dispatch, or products of panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Choice, Launches, Memory, Problem, Push, Settings, Stage, Variant
from vkbench_shaders.kernels.images import conv_coop, conv_panels, patches
from vkbench_shaders.kernels.shared.cooperative import product
from vkbench_shaders.kernels.shared.cooperative import tiles as coop_tiles
from vkbench_shaders.kernels.shared.cooperative.product import Product

NAMES = (*conv_coop.NAMES, *conv_panels.NAMES)


@dataclass(frozen=True, kw_only=True)
class Posed:
    """What a case multiplies."""

    problem: Problem
    sizes: conv_coop.Sizes
    push: Push  # what launches by any tile say
    wide: Mapping[str, int]  # what comes in whole vec4s

    @property
    def asked(self) -> str:
        return str(self.problem.params.get("tile", "auto"))

    @cached_property
    def product(self) -> Product:
        """The product of packed panels that the convolution becomes."""
        return conv_panels.posed(self.problem, self.sizes, self.push, self.wide)

    def fused(self, device: DeviceFacts) -> list[conv_coop.Tile]:
        """Tiles of one dispatch."""
        return conv_coop.tiles(self.sizes, self.asked, device)

    def packed(self, device: DeviceFacts) -> list[str]:
        """Names of tiles of products of panels."""
        if self.asked != "auto" and self.asked not in conv_panels.NAMES:
            return []
        return (
            []
            if product.refuses(self.product, device)
            else conv_panels.ranked(self.product, device)
        )

    def is_packed(self, device: DeviceFacts) -> bool:
        """Whether panels should be faster, or were asked for."""
        fused = self.fused(device)
        if not fused or not self.packed(device):
            return not fused
        best = conv_coop.seconds(fused[0], self.sizes, device)
        return conv_panels.seconds(self.product, self.sizes, device) < best


def variant(pose: Callable[[Problem], Posed], orders: tuple[bool, ...]) -> Variant:
    """`orders`: whether channels are innermost. `auto` never rounds weights of f32."""
    own, *others = (tile.entry(is_last) for is_last in orders for tile in conv_coop.TILES)
    return Variant(
        name="coopmat",
        module="conv_coop",
        entry=own,
        arguments=lambda types: (types["weights"],),
        more=(
            *(Stage(entry=entry, arguments=lambda types: (types["weights"],)) for entry in others),
            *conv_panels.stages(),
        ),
        launch=lambda problem, device: _launches(pose(problem), device),
        own=Memory(scratch=lambda problem, device: _scratch(pose(problem), device)),
        arithmetic="f16_inputs",
        requires=("coopmat", "device_scope", "subgroup_basic", "fp16"),
        refuses=lambda problem, device: _refuses(pose(problem), device),
        choice=Choice(
            suits=lambda problem, device: conv_coop.is_large(pose(problem).sizes, device),
            only_by_name=lambda types: types["weights"] == "f32",
            candidates=lambda problem, device: _candidates(pose(problem), device),
        ),
        accepts=lambda types: types["weights"] != "bf16",  # f16 has fewer exponents
    )


def _refuses(posed: Posed, device: DeviceFacts) -> str | None:
    """Why a device cannot make a problem's products, or None."""
    sizes, asked = posed.sizes, posed.asked
    if asked not in ("auto", *NAMES):
        return coop_tiles.no_tiles(asked)
    if sizes.results * sizes.pixels == 1:
        return coop_tiles.ROUNDS
    if asked in conv_panels.NAMES:
        return product.refuses(posed.product, device) or patches.refuses(posed.problem, device)
    if not posed.fused(device):
        return coop_tiles.lacks(device, "f16", "f32", asked)
    return patches.refuses(posed.problem, device)


def _launches(posed: Posed, device: DeviceFacts) -> Launches:
    if posed.is_packed(device):
        return product.launches(posed.product, device)
    tile = posed.fused(device)[0]
    return conv_coop.launch(tile, posed.sizes, device, posed.push, posed.wide)


def _scratch(posed: Posed, device: DeviceFacts) -> tuple[int, ...]:
    return product.scratch(posed.product, device) if posed.is_packed(device) else ()


def _candidates(posed: Posed, device: DeviceFacts) -> list[Settings]:
    fused, packed = [tile.name for tile in posed.fused(device)], posed.packed(device)
    found = [*packed, *fused] if posed.is_packed(device) else [*fused, *packed]
    return [{"tile": name} for name in found]
