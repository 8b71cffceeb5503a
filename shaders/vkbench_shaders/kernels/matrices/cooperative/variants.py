"""The code paths of a kernel by cooperative matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Problem, Stage, Variant, too_large
from vkbench_shaders.kernels.matrices.cooperative.coop_tiles import TILES
from vkbench_shaders.kernels.matrices.cooperative.product import (
    Product,
    element,
    launches,
    refuses,
    scratch,
)

_SLANG = {"f16": "half", "bf16": "BFloat16"}  # types of what is multiplied


def variants(
    pose: Callable[[Problem, str], Product],
    takes: Callable[[Mapping[str, str]], bool],
    suits: Callable[[Problem, DeviceFacts], bool],
) -> tuple[Variant, ...]:
    """The code paths of a kernel by cooperative matrices; `pose` says what its cases multiply.

    `auto` never takes those that are less exact: sums in f16, and f32 rounded to bf16.
    """

    def never(problem: Problem, device: DeviceFacts) -> bool:
        return False

    def takes_bf16(types: Mapping[str, str]) -> bool:
        return takes(types) and _rounds_to_bf16(types)

    def takes_others(types: Mapping[str, str]) -> bool:
        return takes(types) and not _rounds_to_bf16(types)

    def takes_f16(types: Mapping[str, str]) -> bool:
        return takes(types) and element(types) == "f16"

    return (
        _variant("coopmat", "f16_inputs", "f32", pose, takes_others, suits),
        _variant("coopmat_bf16", "bf16_inputs", "f32", pose, takes_bf16, never),
        _variant("coopmat_f16", "f16_accumulation", "f16", pose, takes_f16, never),
    )


def _rounds_to_bf16(types: Mapping[str, str]) -> bool:
    """Whether numbers of more bits are rounded to bf16, as the other factor's are."""
    first, second, *_ = types.values()
    return first == "bf16" != second


def _variant(
    name: str,
    arithmetic: str,
    sums: str,
    pose: Callable[[Problem, str], Product],
    takes: Callable[[Mapping[str, str]], bool],
    suits: Callable[[Problem, DeviceFacts], bool],
) -> Variant:
    def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
        return (_SLANG[element(types)], f"{sums}_sums", types["y"])

    own, *others = (tile for tile in TILES if sums in tile.sums)
    return Variant(
        name=name,
        module="cooperative_product",
        entry=own.entry,
        arguments=arguments,
        more=(
            *(Stage(entry=tile.entry, arguments=arguments) for tile in others),
            *(_packing(lie, binding) for lie in ("rows", "columns") for binding in (0, 1)),
            Stage(entry="add_parts", module="matmul", arguments=lambda types: (types["y"],)),
        ),
        launch=lambda problem, device: launches(pose(problem, sums), device),
        scratch=lambda problem, device: scratch(pose(problem, sums), device),
        arithmetic=arithmetic,
        requires=("coopmat", "fp16", "storage16"),
        accepts=takes,
        refuses=lambda problem, device: (
            too_large(problem, device) or refuses(pose(problem, sums), device)
        ),
        suits=suits,
    )


def _packing(lie: str, binding: int) -> Stage:
    def fmt(types: Mapping[str, str]) -> str:
        return list(types.values())[binding]

    return Stage(
        entry=f"pack_{lie}_{'ab'[binding]}",
        module=f"pack_{lie}",
        arguments=lambda types: (fmt(types), element(types)),
        accepts=lambda types: lie == "rows" or not format_named(fmt(types)).quantised,
    )
