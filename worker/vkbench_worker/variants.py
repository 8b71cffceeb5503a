"""Code paths of a kernel: which one a device runs, and the program that it is there."""

from __future__ import annotations

from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName
from vkbench_shaders import grids
from vkbench_shaders.bundle import Bundle, entry_key
from vkbench_shaders.kernel import Launch, Problem, Variant
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import Program

AUTO = "auto"


def choose(problem: Problem, asked: str, device: DeviceFacts) -> Variant:
    """The variant asked for, or the best that runs there; Unsupported says why there is none."""
    if asked.casefold() != AUTO:
        variant = _named(problem, asked)
        reason = _obstacle(problem, variant, device)
        if reason:
            raise Unsupported(f"variant {variant.name}: {reason}")
        return variant
    reasons = []
    for variant in problem.kernel.variants_for(problem.types):
        reason = _obstacle(problem, variant, device)
        if not reason:
            return variant
        reasons.append(f"{variant.name}: {reason}")
    raise Unsupported("; ".join(reasons))


def program(
    bundle: Bundle, problem: Problem, variant: Variant, device: DeviceFacts
) -> tuple[Program, Launch]:
    """What is launched for a problem, and how."""
    entry = bundle.entry(entry_key(variant, problem.types))
    launch = variant.launch(problem, device)
    table = grids.table(problem)
    _check(launch, device)
    made = Program(
        code=bundle.code(entry.key),
        sha=entry.sha256,
        bindings=len(problem.kernel.bindings) if table is None else grids.BINDING + 1,
        push_bytes=len(launch.push),
        constants=tuple(sorted(launch.constants.items())),
        problem=problem,
        table=table,
    )
    return made, launch


def _named(problem: Problem, asked: str) -> Variant:
    """A kernel without it is skipped, not an error: one word may select over many kernels."""
    try:
        return problem.kernel.variant(asked)
    except UnknownName as error:
        raise Unsupported(f"{problem.kernel.name} has no variant {asked}") from error


def _obstacle(problem: Problem, variant: Variant, device: DeviceFacts) -> str:
    if not variant.accepts(problem.types):
        return f"is not for {problem.case.name}"
    lacking = [feature for feature in variant.requires if feature not in device.features]
    if lacking:
        return f"needs {', '.join(lacking)}, which {device.name} lacks"
    return variant.refuses(problem, device) or ""


def _check(launch: Launch, device: DeviceFacts) -> None:
    for axis, groups in zip("xyz", launch.groups, strict=True):
        most = device.limits[f"max_groups_{axis}"]
        if groups > most:
            raise Unsupported(
                f"needs {groups} workgroups along {axis}; the device's limit is {most}"
            )
    if len(launch.push) > device.limits["max_push_bytes"]:
        most = device.limits["max_push_bytes"]
        raise Unsupported(
            f"needs {len(launch.push)} bytes of push constants; the device's limit is {most}"
        )
