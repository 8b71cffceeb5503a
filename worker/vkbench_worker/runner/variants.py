"""Code paths of a kernel: which one a device runs, and the programs that it is there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName
from vkbench_shaders import grids
from vkbench_shaders.bundle import Bundle, Entry, entry_key
from vkbench_shaders.kernel import Array, Launch, Problem, Variant
from vkbench_shaders.launch import Interface, LaunchMismatch, PackedLaunch, pack
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import Program

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What is launched for a problem, in order, and the buffers that this takes beside its own."""

    problem: Problem
    passes: Sequence[tuple[Program, PackedLaunch]]
    scratch: Sequence[int]  # bytes
    table: Array | None  # of the format's, bound at grids.BINDING

    @property
    def sha(self) -> str:
        """SHA-256 of the code; of the hashes of its parts where there are several."""
        parts = list(dict.fromkeys(program.sha for program, _ in self.passes))
        return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


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
        if not reason and variant.suits(problem, device):
            return variant
        reasons.append(f"{variant.name}: {reason or 'only if asked for'}")
    raise Unsupported("; ".join(reasons))


def plan(bundle: Bundle, problem: Problem, variant: Variant, device: DeviceFacts) -> LaunchPlan:
    """What is launched for a problem, and how."""
    scratch, table = variant.scratch(problem, device), grids.table(problem)
    own = range(len(problem.kernel.bindings) + len(scratch))
    bindings = (*own, *(() if table is None else (grids.BINDING,)))
    launches = variant.launches(problem, device)
    passes = []
    for launch in launches:
        entry = bundle.entry(entry_key(variant.stage(launch.entry), problem.types))
        _check_groups(launch, device)
        packed = _pack(bundle, launch, entry, device)
        program = Program(
            code=bundle.code(entry.key),
            sha=entry.sha256,
            bindings=bindings,
            push_bytes=len(packed.push),
            constants=packed.constants,
            problem=problem,
            is_last=launch is launches[-1],
        )
        passes.append((program, packed))
    return LaunchPlan(problem=problem, passes=passes, scratch=scratch, table=table)


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


def _pack(bundle: Bundle, launch: Launch, entry: Entry, device: DeviceFacts) -> PackedLaunch:
    """Unsupported where the device's limits are too low, or the shaders take something else."""
    try:
        interface = bundle.interface(entry.key)
        packed = pack(launch, interface, entry.key)
    except LaunchMismatch as error:
        raise Unsupported(
            f"the bundle's shaders do not fit this vkbench's kernels: {error}"
        ) from error
    _check_threads(launch, entry, interface, device)
    most = device.limits["max_push_bytes"]
    if len(packed.push) > most:
        raise Unsupported(
            f"needs {len(packed.push)} bytes of push constants; the device's limit is {most}"
        )
    return packed


def _check_groups(launch: Launch, device: DeviceFacts) -> None:
    for axis, groups in zip("xyz", launch.groups, strict=True):
        most = device.limits[f"max_groups_{axis}"]
        if groups > most:
            raise Unsupported(
                f"needs {groups} workgroups along {axis}; the device's limit is {most}"
            )


def _check_threads(launch: Launch, entry: Entry, interface: Interface, device: DeviceFacts) -> None:
    sizes = zip(interface.sized_by, entry.local_size or (1, 1, 1), strict=True)
    threads = prod(launch.constants.get(name, size) for name, size in sizes)
    most = device.limits["max_workgroup_invocations"]
    if threads > most:
        raise Unsupported(f"needs workgroups of {threads} threads; the device's limit is {most}")
