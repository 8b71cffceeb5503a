"""The code paths of a kernel by cooperative matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Choice, Memory, Problem, Settings, Stage, Variant, too_large
from vkbench_shaders.kernels.shared.cooperative.product import (
    Pose,
    element,
    launches,
    refuses,
    scratch,
    ways,
)
from vkbench_shaders.kernels.shared.cooperative.tiles import SLANG, TILES


@dataclass(frozen=True, kw_only=True)
class Path:
    """What a kernel's code paths by cooperative matrices have in common."""

    pose: Pose
    takes: Callable[[Mapping[str, str]], bool]  # formats
    suits: Callable[[Problem, DeviceFacts], bool]  # sizes
    tunes: tuple[str, ...]  # tunable parameters of the kernel: tile, split
    # formats of which numbers are rounded that the other code paths do not round
    rounds: Callable[[Mapping[str, str]], bool] = lambda types: False

    def variants(self) -> tuple[Variant, ...]:
        """The best first; `auto` never takes sums in f16, or numbers rounded to bf16."""
        return (
            self._variant("coopmat", "f16_inputs", "f32", _is_f16, self.rounds),
            self._variant("coopmat_bf16", "f16_inputs", "f32", _is_bf16, self.rounds),
            self._variant("coopmat_to_bf16", "bf16_inputs", "f32", _rounds_to_bf16),
            self._variant("coopmat_f16", "f16_accumulation", "f16", _is_f16),
        )

    def _variant(
        self,
        name: str,
        arithmetic: str,
        sums: str,
        among: Callable[[Mapping[str, str]], bool],
        only_by_name: Callable[[Mapping[str, str]], bool] = lambda types: True,
    ) -> Variant:
        def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
            return (SLANG[element(types)], f"{sums}_sums", types["y"])

        own, *others = (tile for tile in TILES if sums in tile.costs)
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
            launch=lambda problem, device: launches(self.pose(problem, sums), device),
            own=Memory(scratch=lambda problem, device: scratch(self.pose(problem, sums), device)),
            arithmetic=arithmetic,
            requires=(
                *("coopmat", "device_scope", "subgroup_basic"),
                "bf16" if among is not _is_f16 else "fp16",
            ),
            accepts=lambda types: self.takes(types) and among(types),
            refuses=lambda problem, device: (
                too_large(problem, device) or refuses(self.pose(problem, sums), device)
            ),
            choice=Choice(
                suits=self.suits,
                only_by_name=only_by_name,
                candidates=lambda problem, device: self._candidates(problem, sums, device),
            ),
        )

    def _candidates(self, problem: Problem, sums: str, device: DeviceFacts) -> list[Settings]:
        all_settings: list[Settings] = []
        for way in ways(self.pose(problem, sums), device):
            offered: Settings = {"tile": way.tile.name, "split": way.split}
            settings = {name: offered[name] for name in self.tunes}
            if settings not in all_settings:
                all_settings.append(settings)
        return all_settings


def _rounds_to_bf16(types: Mapping[str, str]) -> bool:
    """Whether numbers of more bits are rounded to bf16, as the other factor's are."""
    first, second, *_ = types.values()
    return first == "bf16" != second


def _is_bf16(types: Mapping[str, str]) -> bool:
    return element(types) == "bf16" and not _rounds_to_bf16(types)


def _is_f16(types: Mapping[str, str]) -> bool:
    return element(types) == "f16"


def _packing(lie: str, binding: int) -> Stage:
    def fmt(types: Mapping[str, str]) -> str:
        return list(types.values())[binding]

    return Stage(
        entry=f"pack_{lie}_{'ab'[binding]}",
        module=f"pack_{lie}",
        arguments=lambda types: (fmt(types), element(types)),
        accepts=lambda types: lie == "rows" or not format_named(fmt(types)).quantised,
    )
