"""The configurations that a case may run with on a device."""

from __future__ import annotations

from dataclasses import replace

from vkbench.configuration import Configuration, text_of
from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Problem, Variant


def configurations(problem: Problem, device: DeviceFacts, most: int) -> list[Configuration]:
    """What runs there: the variants, best first, each with `most` of its settings at most.

    The first one is what `auto` takes where nothing was measured; what `auto` never takes is left
    out.
    """
    return [
        each
        for variant in for_auto(problem, device)
        for each in configurations_of(variant, problem, device, most)
    ]


def configurations_of(
    variant: Variant, problem: Problem, device: DeviceFacts, most: int
) -> list[Configuration]:
    """A variant with `most` of its settings at most; first those it has if asked for by name."""
    return [
        Configuration(variant=variant.name, settings=settings)
        for settings in problem.candidates(device, variant)[:most]
        if not obstacle(replace(problem, settings=settings), variant, device)
    ]


def for_auto(problem: Problem, device: DeviceFacts) -> list[Variant]:
    """The variants that `auto` may take: those that should suit the case first, best first."""
    able = problem.kernel.variants_for(problem.types)
    allowed = [variant for variant in able if not variant.choice.only_by_name(problem.types)]
    return sorted(allowed, key=lambda variant: not variant.choice.suits(problem, device))


def obstacle(problem: Problem, variant: Variant, device: DeviceFacts) -> str:
    """Why a variant does not run there, or ""."""
    if not variant.accepts(problem.types):
        return f"is not for {problem.case.name}"
    lacking = [feature for feature in variant.requires if feature not in device.features]
    if lacking:
        return f"needs {', '.join(lacking)}, which {device.name} lacks"
    if reason := variant.refuses(problem, device):
        return reason
    if not problem.candidates(device, variant):
        return f"cannot have {text_of(problem.named_settings)} there"
    return ""
