"""Chooses a kernel's code path for a device, and builds its programs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from vkbench.configuration import Configuration, parse, text_of
from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName, UsageError
from vkbench.job import AUTO
from vkbench_shaders.bundle import Bundle, Entry, entry_key
from vkbench_shaders.kernel import Array, Launch, Problem, Variant
from vkbench_shaders.launch import Interface, LaunchMismatch, PackedLaunch, pack
from vkbench_shaders.quantisers import grids
from vkbench_shaders.tuning import tables
from vkbench_shaders.tuning.configurations import for_auto, obstacle
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import Claims, Program


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What is launched for a problem, in order, and the buffers that this takes beside its own."""

    problem: Problem
    passes: Sequence[tuple[Program, PackedLaunch]]
    scratch: Sequence[int]  # bytes
    counters: int  # that are zero before and after
    table: Array | None  # of the format's, bound at grids.BINDING
    names: Sequence[str] = ()  # of the scratch, where people gave it names

    @property
    def sha(self) -> str:
        """SHA-256 of the code; of the hashes of its parts where there are several."""
        parts = list(dict.fromkeys(program.sha for program, _ in self.passes))
        return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The code path and the settings that a case runs with."""

    problem: Problem  # with its settings
    variant: Variant
    is_named: (
        bool  # whether a caller or a tuning table named settings; otherwise they are estimated
    )

    @property
    def name(self) -> str:
        """The code path; with its settings if these were named, as a series of its own."""
        settings = self.problem.settings if self.is_named else {}
        return Configuration(variant=self.variant.name, settings=settings).name

    @property
    def settings(self) -> str:
        """All settings as text."""
        return text_of(self.problem.settings)


def choose(problem: Problem, variant: str, device: DeviceFacts, measured: str = "") -> Choice:
    """The configuration asked for, or the best that runs there; Unsupported says why there is none.

    `auto` takes what was measured to be the fastest on the device itself, else what the tuning
    table of its class has, else the first variant that runs there with estimated settings.
    """
    if variant.casefold() != AUTO:
        return _choose_asked(problem, parse(variant), device)
    estimated = _estimated_best(problem, device)
    for known in filter(None, (measured, tables.configuration(problem, device))):
        if choice := _choose_measured(problem, parse(known), device):
            return estimated if replace(choice, is_named=False) == estimated else choice
    return estimated


def plan(
    bundle: Bundle, chosen: Choice, device: DeviceFacts, *, checked: bool = False
) -> LaunchPlan:
    """What is launched for a problem, and how; the device checks bounds if that is asked for."""
    problem, variant = chosen.problem, chosen.variant
    scratch = variant.own.scratch(problem, device)
    counters = variant.own.counters(problem, device)
    own = range(len(problem.kernel.bindings) + len(scratch) + (counters > 0))
    table = None if grids.BINDING in own else grids.table(problem)  # users' kernels have as many
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
            claims=_claims(bundle, entry),
            is_last=launch is launches[-1],
            checks_bounds=checked,
            subgroup_size=launch.subgroup_size,
            full_subgroups=launch.full_subgroups,
        )
        passes.append((program, packed))
    return LaunchPlan(
        problem=problem,
        passes=passes,
        scratch=scratch,
        counters=counters,
        table=table,
        names=variant.own.names,
    )


def _claims(bundle: Bundle, entry: Entry) -> Claims | None:
    if bundle.is_packaged:
        return None
    return Claims(entry=entry, interface=bundle.interface(entry.key))


def _estimated_best(problem: Problem, device: DeviceFacts) -> Choice:
    reasons = []
    for variant in for_auto(problem, device):
        choice = _choose_estimated(problem, variant, device)
        reason = obstacle(choice.problem, variant, device)
        if not reason:
            return choice
        reasons.append(f"{variant.name}: {reason}")
    raise Unsupported("; ".join(reasons))


def _choose_asked(problem: Problem, named: Configuration, device: DeviceFacts) -> Choice:
    variant = _find_variant(problem, named.variant)
    try:
        settings = problem.kernel.settings(named.settings)
    except UsageError as error:
        raise Unsupported(str(error)) from error
    choice = _choose_estimated(replace(problem, settings=settings), variant, device)
    reason = obstacle(choice.problem, variant, device)
    if reason:
        raise Unsupported(f"variant {variant.name}: {reason}")
    return replace(choice, is_named=bool(settings))


def _choose_measured(problem: Problem, known: Configuration, device: DeviceFacts) -> Choice | None:
    """The configuration measured on a similar case, if this case can have it too."""
    names = [variant.name for variant in for_auto(problem, device)]
    if known.variant not in names:
        return None
    variant = problem.kernel.variant(known.variant)
    posed = replace(problem, settings=known.settings)
    if known.settings not in problem.candidates(device, variant) or obstacle(
        posed, variant, device
    ):
        return None
    return Choice(problem=posed, variant=variant, is_named=True)


def _choose_estimated(problem: Problem, variant: Variant, device: DeviceFacts) -> Choice:
    """A variant with the settings that should be the fastest."""
    settings = next(iter(problem.candidates(device, variant)), problem.settings)
    return Choice(problem=replace(problem, settings=settings), variant=variant, is_named=False)


def _find_variant(problem: Problem, name: str) -> Variant:
    """The variant of a name; Unsupported, not an error: one word may select over many kernels."""
    try:
        return problem.kernel.variant(name)
    except UnknownName as error:
        raise Unsupported(f"{problem.kernel.name} has no variant {name}") from error


def _pack(bundle: Bundle, launch: Launch, entry: Entry, device: DeviceFacts) -> PackedLaunch:
    """Pack a launch; Unsupported if limits are too low or shaders take other values."""
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
    if (size := launch.subgroup_size) and threads > size * device.limits.get("max_subgroups", most):
        raise Unsupported(
            f"needs workgroups of {threads // size} subgroups of {size}; the device's limit is "
            f"{device.limits['max_subgroups']}"
        )
