"""What a bundle's manifest says of an own kernel of a user: numbers, names, hashes, no code.

A declaration's formulas and its reference in Python stay on its author's machine. What they gave
for each case travels, so that no worker evaluates what a stranger wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Final

from vkbench.case import OWN_NAME, WEIGHTS, Case, Value, parse
from vkbench.errors import VkbenchError
from vkbench_shaders.formats import format_named
from vkbench_shaders.own.launching.own_launch import LIMITS, OwnLaunch
from vkbench_shaders.tolerance import limits_of

MOST_BINDINGS: Final = 32
MOST_DIMS: Final = 8
MOST_VARIANTS: Final = 256
MOST_STEPS: Final = 64  # of a variant
MOST_LAUNCHES: Final = 256  # of a dispatch, by limits of devices
MOST_CASES: Final = 1000
MOST_SIZE: Final = 1 << 31  # of a dimension
MOST_ARRAY_BYTES: Final = 1 << 30  # of a binding's array
MOST_STORED_BYTES: Final = 64 << 20  # of all arrays that travel in a bundle
PART_BYTES: Final = 4 << 20  # of an array, in a blob of its own
MOST_WORD: Final = 1 << 32  # workgroups, and values of specialisation constants, are less
WORD_BYTES: Final = 4
SUBGROUP: Final = "subgroup_size"  # what formulas call the threads of a subgroup
SUBGROUPS: Final = (4, 8, 16, 32, 64, 128)  # sizes that devices have
MOST_TEXT: Final = 500  # characters of a description
ACCESSES: Final = ("in", "out", "inout")
VALUES: Final = ("noise", "special", "uniform")
STEP: Final = "."  # between a variant's name and the number of a step; no name has it
WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
DIM: Final = re.compile(r"[a-z]{1,16}")


class UnfitDeclaration(VkbenchError):
    """A user's kernel is not declared as vkbench takes it."""


@dataclass(frozen=True, kw_only=True)
class OwnBinding:
    """One storage buffer; its place in the list is its Vulkan binding number, in set 0."""

    name: str
    access: str  # in | out | inout
    format: str
    dims: tuple[str, ...]  # outermost first
    exact: bool = False  # an output that is judged bit for bit
    values: str = "noise"  # what an input holds that no file gives: noise | special | uniform
    more: tuple[str, ...] = ()  # other formats that it has in some cases
    same_as: str = ""  # an earlier one whose format it always has

    @property
    def formats(self) -> tuple[str, ...]:
        """All formats that it may have, the default first."""
        return (self.format, *self.more)


@dataclass(frozen=True, kw_only=True)
class OwnVariant:
    """One code path: its code is the bundle's entry `<kernel>/<variant>`, of one dispatch."""

    name: str
    arithmetic: str  # whose limits judge it: of tolerance.LIMITS, or limits of its own
    requires: tuple[str, ...] = ()  # device features
    steps: int = 1  # dispatches, of several the code is `<kernel>/<variant>.<number>`, from 1
    scratch: tuple[str, ...] = ()  # buffers that are bound behind the kernel's, in no known state
    counters: str = ""  # one more behind these, which is zero before and after a launch
    # those that its code for some formats needs beside; by `codes_of` of a case
    requires_more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OwnCase:
    """One case with all that its author's machine worked out for it."""

    name: str
    is_timed: bool = True
    flops: int = 0
    # by variant; several where it has steps, or scratch
    launches: Mapping[str, OwnLaunch | tuple[OwnLaunch, ...]]
    scratch: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # bytes, by variant
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of uniform inputs
    made: str = ""  # SHA-256 of the inputs that follow from the case's name
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # blobs, by binding
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # blobs, by binding

    def steps(self, variant: str) -> tuple[OwnLaunch, ...]:
        """The dispatches of a variant, in order."""
        launches = self.launches[variant]
        return (launches,) if isinstance(launches, OwnLaunch) else launches


@dataclass(frozen=True, kw_only=True)
class OwnKernel:
    """A kernel that a user declared."""

    name: str  # owner and name: lab.rms_quant
    description: str = ""
    shadows: str = ""  # the catalogue's kernel whose bindings, cases and reference are its own
    deterministic: bool = True
    dims: tuple[str, ...] = ()
    bindings: tuple[OwnBinding, ...] = ()
    by_format: tuple[str, ...] = ()  # bindings whose formats choose among a variant's codes
    params: Mapping[str, Value] = field(default_factory=dict)  # with their defaults
    variants: tuple[OwnVariant, ...]
    cases: tuple[OwnCase, ...]

    @property
    def owner(self) -> str:
        """The user who declared the kernel."""
        return self.name.partition(".")[0]

    @property
    def stored(self) -> Iterator[str]:
        """The hashes of the blobs that its arrays lie in."""
        for case in self.cases:
            for arrays in (case.inputs, case.outputs):
                for parts in arrays.values():
                    yield from parts

    def codes_of(self, types: Mapping[str, str]) -> tuple[str, ...]:
        """What, of the formats of a case, chooses among a variant's codes."""
        return tuple(types.get(name, "") for name in self.by_format)

    def types(self, case: Case) -> dict[str, str]:
        """The format of each binding in a case."""
        types: dict[str, str] = {}
        for place, binding in enumerate(self.bindings):
            given = case.types.get(binding.name, binding.format) if place else case.format
            types[binding.name] = types[binding.same_as] if binding.same_as else given
        return types

    def binding(self, name: str) -> OwnBinding:
        """A binding by name."""
        return next(binding for binding in self.bindings if binding.name == name)

    def case(self, name: str) -> OwnCase | None:
        """A case by its whole name."""
        return next((case for case in self.cases if case.name == name), None)


def entries_of(variant: str, steps: int) -> list[str]:
    """What a bundle calls the code of each of a variant's dispatches, behind the kernel's name."""
    if steps == 1:
        return [variant]
    return [f"{variant}{STEP}{number}" for number in range(1, steps + 1)]


def check(kernel: OwnKernel) -> None:
    """Raise UnfitDeclaration unless a kernel's names and numbers are within bounds."""
    check_head(kernel)
    _check_count("cases", len(kernel.cases), MOST_CASES)
    _check_distinct("case", [case.name for case in kernel.cases])
    for case in kernel.cases:
        check_case(kernel, case)
        _check_arrays(kernel, case)


def check_head(kernel: OwnKernel) -> None:
    """Refuse a kernel as `check` does, but do not look at its cases."""
    if not OWN_NAME.fullmatch(kernel.name):
        raise UnfitDeclaration(
            f"the name of a kernel is OWNER.NAME of letters, digits and _, not {kernel.name!r}"
        )
    if len(kernel.description) > MOST_TEXT or not kernel.description.isprintable():
        raise UnfitDeclaration(f"the description is one line of up to {MOST_TEXT} characters")
    _check_count("variants", len(kernel.variants), MOST_VARIANTS)
    _check_distinct("variant", [variant.name for variant in kernel.variants])
    for variant in kernel.variants:
        _check_word("variant", variant.name)
        limits_of(variant.arithmetic)
        _check_memory(kernel, variant)
    if kernel.shadows:
        if kernel.bindings or kernel.dims or kernel.params:
            raise UnfitDeclaration(
                f"it shadows {kernel.shadows}, and has its bindings, sizes and parameters: "
                "leave out [[bindings]] and [params]"
            )
    else:
        _check_bindings(kernel)


def _check_bindings(kernel: OwnKernel) -> None:
    _check_count("bindings", len(kernel.bindings), MOST_BINDINGS)
    _check_count("dimensions", len(kernel.dims), MOST_DIMS)
    _check_distinct("binding", [binding.name for binding in kernel.bindings])
    for name, value in kernel.params.items():
        _check_word("parameter", name)
        if not isinstance(value, str) and not isfinite(value):
            raise UnfitDeclaration(f"the parameter {name} is {value}")
        if name in (*kernel.dims, WEIGHTS, SUBGROUP, *LIMITS):
            raise UnfitDeclaration(
                f"a parameter is named {name}, as a size, the weights, the threads of a "
                "subgroup or a limit of devices are"
            )
    for binding in kernel.bindings:
        _check_binding(kernel, binding)
    if not any(binding.access != "in" for binding in kernel.bindings):
        raise UnfitDeclaration("no binding is an output: give one access = 'out' or 'inout'")


def _check_binding(kernel: OwnKernel, binding: OwnBinding) -> None:
    name = binding.name
    _check_word("binding", name)
    _check_choice(f"access of {name}", binding.access, ACCESSES)
    _check_choice(f"values of {name}", binding.values, VALUES)
    for fmt in binding.formats:
        _check_format(binding, fmt)
    earlier = kernel.bindings[: kernel.bindings.index(binding)]
    if binding.same_as and binding.same_as not in {other.name for other in earlier}:
        raise UnfitDeclaration(
            f"{name} has the format of {binding.same_as}, which is not before it"
        )
    if not binding.dims or len(binding.dims) > MOST_DIMS:
        raise UnfitDeclaration(f"{name} has 1 to {MOST_DIMS} dims, not {len(binding.dims)}")
    for dim in binding.dims:
        if not DIM.fullmatch(dim):
            raise UnfitDeclaration(f"a size of {name} is named {dim!r}: give small letters")
        if dim not in kernel.dims:
            raise UnfitDeclaration(f"{name} has the size {dim}, and the kernel has not")


def _check_format(binding: OwnBinding, fmt: str) -> None:
    name = binding.name
    if format_named(fmt).name != fmt:
        raise UnfitDeclaration(f"the format of {name} is written otherwise: {fmt!r}")
    if binding.values == "special" and fmt[0] not in "bf":
        raise UnfitDeclaration(f"{name} holds {fmt}, which has no special values")
    if format_named(fmt).quantised and binding.access != "in" and not binding.exact:
        raise UnfitDeclaration(
            f"{name} holds blocks of {fmt}, which are compared bit for bit: say exact = true"
        )


def check_case(kernel: OwnKernel, case: OwnCase) -> None:
    """Raise UnfitDeclaration unless a case is within bounds; whatever arrays it has."""
    parsed = parse(case.name)
    if parsed.kernel != (kernel.shadows or kernel.name):
        raise UnfitDeclaration(f"{case.name} is no case of {kernel.shadows or kernel.name}")
    for dim, size in parsed.shape.items():
        if size >= MOST_SIZE:
            raise UnfitDeclaration(f"{case.name}: {dim} is {size}; sizes are below {MOST_SIZE}")
    types = kernel.types(parsed)
    for binding in kernel.bindings:
        fmt = format_named(types[binding.name])
        sizes = [parsed.shape.get(dim, 1) for dim in binding.dims]
        needed = prod(sizes[:-1]) * fmt.items(sizes[-1]) * fmt.dtype.itemsize
        most = MOST_ARRAY_BYTES if binding.access == "in" else MOST_STORED_BYTES
        if needed > most:
            raise UnfitDeclaration(
                f"{case.name}: {binding.name} has {needed} bytes; {most} are allowed"
            )
    if case.launches.keys() != {variant.name for variant in kernel.variants}:
        raise UnfitDeclaration(f"{case.name} has not a launch of each variant")
    if not 0 <= case.flops < 1 << 63:
        raise UnfitDeclaration(f"{case.name}: {case.flops} operations are no sensible number")
    for name, ends in case.ranges.items():
        if not all(map(isfinite, ends)) or ends[0] > ends[1]:
            raise UnfitDeclaration(f"{case.name}: the range of {name} is {list(ends)}")
    for variant in kernel.variants:
        _check_steps(f"{case.name}, variant {variant.name}", variant, case)
    if not case.scratch.keys() <= case.launches.keys():
        raise UnfitDeclaration(f"{case.name} has scratch of a variant that the kernel has not")


def _check_arrays(kernel: OwnKernel, case: OwnCase) -> None:
    inputs = {binding.name for binding in kernel.bindings if binding.access != "out"}
    outputs = {binding.name for binding in kernel.bindings if binding.access != "in"}
    uniform = {binding.name for binding in kernel.bindings if binding.values == "uniform"}
    if (
        case.outputs.keys() != outputs
        or case.inputs.keys() - inputs
        or uniform - case.ranges.keys()
    ):
        raise UnfitDeclaration(f"{case.name} has not the arrays of its bindings")


def _check_memory(kernel: OwnKernel, variant: OwnVariant) -> None:
    """Refuse buffers of a variant's own that have no names, or are too many."""
    names = [*variant.scratch, *filter(None, [variant.counters])]
    for name in names:
        _check_word("scratch", name)
    _check_distinct("scratch", names)
    count = len(kernel.bindings) + len(names)
    if count > MOST_BINDINGS:
        raise UnfitDeclaration(
            f"variant {variant.name} has {count} arrays and scratch; {MOST_BINDINGS} are allowed"
        )


def _check_steps(where: str, variant: OwnVariant, case: OwnCase) -> None:
    steps, sizes = case.steps(variant.name), case.scratch.get(variant.name, ())
    if not 1 <= variant.steps <= MOST_STEPS:
        raise UnfitDeclaration(f"{where}: {variant.steps} steps; 1 to {MOST_STEPS} are allowed")
    if len(steps) != variant.steps:
        raise UnfitDeclaration(f"{where}: it launches {len(steps)} of {variant.steps} steps")
    for launch in steps:
        check_launch(where, launch)
        _check_limits(where, launch)
        for size, other in launch.by_subgroup.items():
            if size not in SUBGROUPS or other.by_subgroup:
                raise UnfitDeclaration(f"{where}: it has a launch for subgroups of {size}")
            check_launch(where, other)
            _check_limits(where, other)
    if len(sizes) != len(variant.scratch) + bool(variant.counters):
        raise UnfitDeclaration(f"{where}: it has not the size of each scratch")
    for size in sizes:
        if not 0 < size <= MOST_ARRAY_BYTES:
            raise UnfitDeclaration(
                f"{where}: a scratch has {size} bytes; 1 to {MOST_ARRAY_BYTES} are allowed"
            )
    if variant.counters and sizes[-1] % WORD_BYTES:
        raise UnfitDeclaration(f"{where}: {variant.counters} has {sizes[-1]} bytes, no whole words")


def _check_limits(where: str, launch: OwnLaunch) -> None:
    if len(launch.by_limits) > MOST_LAUNCHES:
        raise UnfitDeclaration(f"{where}: it has {len(launch.by_limits)} launches by limits")
    for each in launch.by_limits:
        if not each.least.keys() <= LIMITS.keys() or each.launch.by_limits:
            raise UnfitDeclaration(f"{where}: it has a launch for limits {dict(each.least)}")
        if each.launch.by_subgroup:
            raise UnfitDeclaration(f"{where}: it has a launch by subgroups for some limits")
        check_launch(where, each.launch)


def check_launch(where: str, launch: OwnLaunch) -> None:
    """Raise UnfitDeclaration unless the numbers of a launch are within bounds."""
    if any(not 0 < size < MOST_WORD for size in launch.groups):
        raise UnfitDeclaration(f"{where}: the launch has {list(launch.groups)} workgroups")
    if any(not 0 <= value < MOST_WORD for value in launch.constants.values()):
        raise UnfitDeclaration(f"{where}: a specialisation constant has over 32 bits")
    if len(launch.refusal) > MOST_TEXT or not launch.refusal.isprintable():
        raise UnfitDeclaration(
            f"{where}: why it is not launched is no line of {MOST_TEXT} characters"
        )
    if launch.subgroup_size not in (0, *SUBGROUPS):
        raise UnfitDeclaration(
            f"{where}: it requires subgroups of {launch.subgroup_size}; "
            f"sizes are {', '.join(map(str, SUBGROUPS))}"
        )


def _check_count(what: str, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise UnfitDeclaration(f"it has {count} {what}; 1 to {most} are allowed")


def _check_distinct(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise UnfitDeclaration(f"the {what} {name} is declared twice")


def _check_word(what: str, name: str) -> None:
    if not WORD.fullmatch(name):
        raise UnfitDeclaration(
            f"a {what} is named {name!r}: give letters, digits and _, a letter first"
        )


def _check_choice(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UnfitDeclaration(f"the {what} is {given!r}; give {', '.join(known)}")
