"""Poses a job's case: by the catalogue, or by the kernel that the job's bundle declares."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from vkbench.case import Case, is_own, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError, VkbenchError
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle, CorruptBundle
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Kernel,
    Launch,
    Memory,
    Param,
    Problem,
    Stage,
    Variant,
    Work,
    too_large,
)
from vkbench_shaders.own.launching.own_launch import OwnLaunch
from vkbench_shaders.own.records import (
    WORD_BYTES,
    OwnBinding,
    OwnCase,
    OwnKernel,
    OwnVariant,
    entries_of,
)


class NotDeclared(VkbenchError):
    """A bundle does not declare the case that a job names."""


def pose_case(bundle: Bundle, case: Case | str) -> Problem:
    """A case, or its name, as a bundle declares it; by the catalogue where the bundle does not.

    NotDeclared for a case of a user's kernel that the bundle does not have.
    """
    named = parse(case) if isinstance(case, str) else case
    for own in bundle.manifest.kernels:
        if named.kernel == (own.shadows or own.name):
            if own.case(named.name) is None:
                raise NotDeclared(f"bundle {bundle.sha[:12]} does not declare {named.name}")
            return problem(kernel_of(own, bundle), named)
    if is_own(named.name):
        raise NotDeclared(f"bundle {bundle.sha[:12]} has no kernel {named.kernel}")
    return catalogue.problem(named)


def own_case(bundle: Bundle, case: Case) -> OwnCase | None:
    """A case as a bundle itself declares it; None where it does not."""
    cases = (own.case(case.name) for own in bundle.manifest.kernels)
    return next(filter(None, cases), None)


def problem(kernel: Kernel, named: Case) -> Problem:
    """A case, checked against a kernel; UsageError for what it does not have."""
    types = {kernel.bindings[0].name: named.format, **named.types}
    canonical = kernel.case(types, named.shape, named.params)
    if canonical.name != named.name:
        raise UsageError(f"the case {named.name} is called {canonical.name}")
    return Problem(kernel, canonical)


def outline_kernel(own: OwnKernel) -> Kernel:
    """A user's kernel without its arrays: for names of cases, sizes and launches."""
    if own.shadows:
        shadowed = catalogue.kernel_named(own.shadows)
        return replace(shadowed, variants=_variants(own), tuning=None)
    return Kernel(
        name=own.name,
        description=own.description,
        group="own",
        dims=own.dims,
        bindings=tuple(map(_binding, own.bindings)),
        variants=_variants(own),
        inputs=lambda problem: {},
        check=Check(reference=lambda problem, inputs, rows: {}, deterministic=own.deterministic),
        work=Work(
            flops=lambda problem: _case(own, problem).flops,
            idempotent=not any(binding.access == "inout" for binding in own.bindings),
        ),
        cases=(),
        timed=(),
        params={name: Param(default=value) for name, value in own.params.items()},
    )


def kernel_of(own: OwnKernel, bundle: Bundle) -> Kernel:
    """A user's kernel, with the arrays that its bundle holds."""
    kernel = outline_kernel(own)
    if own.shadows:
        return kernel
    return replace(
        kernel,
        inputs=partial(_inputs, own, bundle),
        check=replace(kernel.check, reference=partial(_reference, own, bundle)),
        content=bundle.sha,
    )


def generate_inputs(own: OwnKernel, problem: Problem, case: OwnCase) -> dict[str, Array]:
    """The inputs that follow from a case's name: those that it brings no array of."""
    return {
        binding.name: _make_input(binding, problem, case)
        for binding in own.bindings
        if binding.access != "out" and binding.name not in case.inputs
    }


def digest_of(arrays: Arrays) -> str:
    """SHA-256 of arrays with their names; "" of none."""
    if not arrays:
        return ""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _variants(own: OwnKernel) -> tuple[Variant, ...]:
    return tuple(_variant(own, variant) for variant in own.variants)


def _variant(own: OwnKernel, variant: OwnVariant) -> Variant:
    """A variant; a shadow's name has its kernel's, so that its history is not the catalogue's."""

    entries = entries_of(variant.name, variant.steps)

    def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
        steps = _case(own, problem).steps(variant.name)
        return tuple(
            _launch(step.on(device), entry) for step, entry in zip(steps, entries, strict=True)
        )

    return Variant(
        name=f"{own.name}.{variant.name}" if own.shadows else variant.name,
        module=own.name,
        entry=entries[0],
        arguments=own.codes_of,
        launch=launch,
        arithmetic=variant.arithmetic,
        more=tuple(Stage(entry=entry, arguments=own.codes_of) for entry in entries[1:]),
        own=_memory(own, variant),
        requires=variant.requires,
        refuses=lambda problem, device: _refuse(own, variant, problem, device),
    )


def _launch(declared: OwnLaunch, entry: str) -> Launch:
    return Launch(
        groups=declared.groups,
        push=declared.push,
        constants=declared.constants,
        entry=entry,
        subgroup_size=declared.subgroup_size,
        full_subgroups=declared.full_subgroups,
    )


def _memory(own: OwnKernel, variant: OwnVariant) -> Memory:
    """A variant's scratch and counters, as its author's machine worked out how large they are."""
    count = len(variant.scratch)

    def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
        return _case(own, problem).scratch.get(variant.name, ())[:count]

    def counters(problem: Problem, device: DeviceFacts) -> int:
        return sum(_case(own, problem).scratch.get(variant.name, ())[count:]) // WORD_BYTES

    return Memory(scratch=scratch, counters=counters, names=variant.scratch)


def _refuse(
    own: OwnKernel, variant: OwnVariant, problem: Problem, device: DeviceFacts
) -> str | None:
    """Why a device does not run the code of a variant, or bind its arrays or scratch, or None."""
    codes = ",".join(own.codes_of(problem.types))
    lacking = set(variant.requires_more.get(codes, ())).difference(device.features)
    if lacking:
        return f"needs {', '.join(sorted(lacking))}, which {device.name} lacks"
    refusals = (step.refuses(device) for step in _case(own, problem).steps(variant.name))
    if reason := next(filter(None, refusals), None):
        return reason
    most = device.limits.get("max_storage_range")
    names = [*variant.scratch, variant.counters]
    for name, size in zip(names, _case(own, problem).scratch.get(variant.name, ()), strict=False):
        if most is not None and size > most:
            return f"{name} has {size} bytes, the device binds {most} at most"
    return too_large(problem, device)


def _binding(binding: OwnBinding) -> Binding:
    return Binding(
        name=binding.name,
        access=binding.access,
        types=binding.formats,
        same_as=binding.same_as,
        dims=binding.dims,
        exact=binding.exact,
    )


def _case(own: OwnKernel, problem: Problem) -> OwnCase:
    case = own.case(problem.case.name)
    if case is None:
        raise NotDeclared(f"{own.name} does not declare {problem.case.name}")
    return case


def _inputs(own: OwnKernel, bundle: Bundle, problem: Problem) -> dict[str, Array]:
    case = _case(own, problem)
    made = generate_inputs(own, problem, case)
    if digest_of(made) != case.made:
        raise VkbenchError(
            f"the inputs of {case.name} are not those that its reference was worked out for: "
            "another version of vkbench made the bundle; make it anew with this one"
        )
    return made | _load_arrays(case.inputs, bundle, problem)


def _reference(
    own: OwnKernel, bundle: Bundle, problem: Problem, inputs: Arrays, rows: Array | None
) -> dict[str, Array]:
    return _load_arrays(_case(own, problem).outputs, bundle, problem)


def _load_arrays(
    stored: Mapping[str, Iterable[str]], bundle: Bundle, problem: Problem
) -> dict[str, Array]:
    return {name: _array(name, parts, bundle, problem) for name, parts in stored.items()}


def _array(name: str, parts: Iterable[str], bundle: Bundle, problem: Problem) -> Array:
    kind, shape = problem.format(name).dtype, problem.array_shape(name)
    try:
        return np.frombuffer(bundle.array(parts), kind).reshape(shape)
    except ValueError as error:
        raise CorruptBundle(
            f"bundle {bundle.sha[:12]}: the array {name} of {problem.case.name} is no {kind} "
            f"{list(shape)}"
        ) from error


def _make_input(binding: OwnBinding, problem: Problem, case: OwnCase) -> Array:
    name = binding.name
    if binding.values == "uniform":
        return data.uniform(problem, name, *case.ranges[name])
    if problem.format(name).quantised:
        return data.weights(problem, name)
    return (
        data.plain_values(problem, name)
        if binding.values == "special"
        else data.bell(problem, name)
    )
