"""The records that a kernel is declared with, and a case resolved against them.

A kernel is one `Kernel(...)` in `kernels/<family>.py` and its shader; all else reads these records.
Arrays are numpy arrays of a format's storage type: float32, float16, uint16 for bf16; for quantised
formats uint8 whose last axis holds whole blocks (bytes a row). A `Layout` counts in their items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_shaders.binding import Binding as Binding
from vkbench_shaders.binding import Layout as Layout
from vkbench_shaders.binding import Param as Param
from vkbench_shaders.binding import changed_params, fill_types, list_types, sizes_of
from vkbench_shaders.formats import Array as Array
from vkbench_shaders.formats import Format, format_named
from vkbench_shaders.formats import matrix_shape as matrix_shape
from vkbench_shaders.launch import MOST_GROUPS as MOST_GROUPS
from vkbench_shaders.launch import Flow as Flow
from vkbench_shaders.launch import Launch as Launch
from vkbench_shaders.launch import Push as Push
from vkbench_shaders.launch import grid as grid
from vkbench_shaders.rounded_factors import Rounding

Arrays = Mapping[str, Array]
Shapes = Mapping[str, tuple[int, ...]]
Arguments = Callable[[Mapping[str, str]], tuple[str, ...]]  # binding formats -> generic arguments
# outputs, from inputs; only some `rows` if given
Outputs = Callable[["Problem", Arrays, Array | None], dict[str, Array]]
Deviations = Callable[["Problem", Arrays, Array | None, Rounding], dict[str, Array]]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """An entry point that a variant has beside its own."""

    entry: str
    module: str = ""  # "": the variant's
    arguments: Arguments = lambda types: ()
    accepts: Callable[[Mapping[str, str]], bool] = lambda types: True  # is it for these formats
    requires: tuple[str, ...] = ()  # device features that its launches look for first


Settings = Mapping[str, Value]  # of parameters that tuning may choose
Launches = Launch | tuple[Launch, ...]  # one after the other, each seeing what those before it did
Refuses = Callable[["Problem", DeviceFacts], str | None]  # why a device cannot run it, or None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """When a variant and its settings are chosen, where nothing was measured."""

    # whether it should be the fastest for a problem of this size
    suits: Callable[[Problem, DeviceFacts], bool] = lambda problem, device: True
    # whether `auto` never takes it for these formats, because it computes less exactly
    only_by_name: Callable[[Mapping[str, str]], bool] = lambda types: False
    # settings to choose from, where they are not those of the kernel's other variants
    candidates: Callable[[Problem, DeviceFacts], list[Settings]] | None = None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A variant's own buffers, bound behind the kernel's; scratch, in bytes, begins undefined."""

    scratch: Callable[[Problem, DeviceFacts], tuple[int, ...]] = lambda problem, device: ()
    # counters in one more buffer, 32 bits each, which are zero before its launches and after them
    counters: Callable[[Problem, DeviceFacts], int] = lambda problem, device: 0
    names: tuple[str, ...] = ()  # of the scratch, if it has some


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One code path of a kernel."""

    name: str  # portable, subgroup, ...
    module: str  # Slang file without its ending, in the shader tree
    launch: Callable[[Problem, DeviceFacts], Launches]
    arithmetic: str  # how it computes, whose limits judge it: a key of tolerance.LIMITS
    entry: str = ""  # entry point in it; "": the one of the module's name
    arguments: Arguments = lambda types: ()
    more: tuple[Stage, ...] = ()  # further entry points that its launches name
    own: Memory = Memory()
    requires: tuple[str, ...] = ()  # device features
    accepts: Callable[[Mapping[str, str]], bool] = lambda types: True  # is it for these formats
    refuses: Refuses = lambda problem, device: too_large(problem, device)
    choice: Choice = Choice()

    def __post_init__(self) -> None:
        object.__setattr__(self, "entry", self.entry or self.module)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """All entry points of the variant, its own first."""
        own = Stage(entry=self.entry, module=self.module, arguments=self.arguments)
        return (own, *(replace(stage, module=stage.module or self.module) for stage in self.more))

    def stages_for(self, types: Mapping[str, str]) -> list[Stage]:
        """The entry points that it has for these binding formats."""
        return [stage for stage in self.stages if stage.accepts(types)]

    def stage(self, entry: str) -> Stage:
        """The entry point that a launch names."""
        return next(stage for stage in self.stages if stage.entry == (entry or self.entry))

    def launches(self, problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
        """All launches of the variant, in order."""
        launches = self.launch(problem, device)
        return (launches,) if isinstance(launches, Launch) else launches


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Parameters that change a kernel's speed and not what it computes."""

    params: tuple[str, ...]  # their defaults leave the choice to vkbench
    # settings to choose from, by what the case leaves open; first what should be the fastest
    candidates: Callable[[Problem, DeviceFacts], list[Settings]]


@dataclass(frozen=True, kw_only=True)
class Check:
    """How a kernel's results are judged."""

    reference: Outputs
    deviations: Deviations | None = None  # RMS errors of outputs where a path rounds factors
    rows: str = ""  # the dimension a sampled check picks from; "": always whole
    deterministic: bool = True  # the same bits every time


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one launch does, and how it is timed."""

    flops: Callable[[Problem], int]
    bytes_moved: Callable[[Problem], int] = lambda problem: each_once(problem)
    idempotent: bool = True  # a launch over what one left leaves that; else inputs are restored
    flow: Flow | None = None  # None: launches are timed inside one submission


@dataclass(frozen=True, kw_only=True)
class Forms:
    """Which formats, sizes and places in memory a kernel's arrays may have."""

    accepts: Callable[[Mapping[str, str]], bool] = lambda types: True  # may these formats meet
    empty: tuple[str, ...] = ()  # dimensions that may be 0
    # array shapes, formats -> sizes; None: read off by the dimensions of the bindings
    infer: Callable[[Shapes, Mapping[str, str]], dict[str, int]] | None = None
    layout: Callable[[Problem, str], Layout] | None = None  # of a binding; None: contiguous
    whole: bool = False  # it tells outer dimensions apart, so that no array may leave any out


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Everything there is to say about one kernel."""

    name: str
    description: str  # one sentence
    group: str  # its family, in one word
    dims: tuple[str, ...]  # in the order of the case's name
    bindings: tuple[Binding, ...]
    variants: tuple[Variant, ...]  # best first; the last runs on every device
    inputs: Callable[[Problem], dict[str, Array]]  # shaped arrays, from the case alone
    cases: Sequence[Case]  # checked
    timed: Sequence[Case]  # timed (and checked)
    check: Check
    work: Work
    forms: Forms = Forms()
    params: Mapping[str, Param] = field(default_factory=dict)
    tuning: Tuning | None = None
    content: str = ""  # what it is apart from its name, where a bundle declares it

    def binding(self, name: str) -> Binding:
        """A binding by name, whatever its case."""
        known = self._by_name
        return known.get(name) or known[names.pick(name, known, f"binding of {self.name}")]

    @cached_property
    def _by_name(self) -> dict[str, Binding]:
        return {binding.name: binding for binding in self.bindings}

    @property
    def reads_weights(self) -> bool:
        """Whether its first binding is an input that may hold blocks: a file's tensor, if asked."""
        first = self.bindings[0]
        return first.access == "in" and any(format_named(fmt).quantised for fmt in first.types)

    def inputs_read(self, params: Mapping[str, Value]) -> list[Binding]:
        """The inputs that are read under parameters; what is not among them has its default."""
        full = {name: param.default for name, param in self.params.items()} | dict(params)
        return [binding for binding in self.bindings if binding.is_input and binding.is_read(full)]

    def variant(self, name: str) -> Variant:
        """A variant by name, whatever its case."""
        picked = names.pick(name, [v.name for v in self.variants], f"variant of {self.name}")
        return next(v for v in self.variants if v.name == picked)

    def settings(self, named: Settings) -> dict[str, Value]:
        """Settings as declared, whatever their case; UsageError for what is none."""
        params = self.tuning.params if self.tuning else ()
        declared: dict[str, Value] = {}
        for name, value in named.items():
            picked = names.pick(name, params, f"tunable parameter of {self.name}")
            declared[picked] = self.params[picked].pick_value(
                value, f"value of {self.name}'s {picked}"
            )
        return declared

    def variants_for(self, types: Mapping[str, str]) -> list[Variant]:
        """The variants for these binding formats, best first."""
        return [variant for variant in self.variants if variant.accepts(types)]

    def type_choices(self) -> Iterator[dict[str, str]]:
        """Every combination of formats that the bindings may have and the kernel accepts.

        Of those with the same format of the first binding the one with all defaults comes first.
        """
        for full in list_types(self):
            if self.forms.accepts(full):
                yield full

    def case(
        self,
        types: Mapping[str, str],
        shape: Mapping[str, int],
        params: Mapping[str, Value] | None = None,
    ) -> Case:
        """A canonical case: defaults left out, names as declared; UsageError for what is not."""
        full, (first, *others) = self._types(types), self.bindings
        free = [binding for binding in others if not binding.same_as]
        return Case(
            kernel=self.name,
            format=full[first.name],
            shape=self._shape(shape, full),
            types={b.name: full[b.name] for b in free if full[b.name] != b.default_format(full)},
            params=changed_params(self, params or {}),
        )

    def sizes(self, shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
        """Sizes of the dimensions, from the shapes of arrays."""
        return self.forms.infer(shapes, types) if self.forms.infer else sizes_of(self, shapes)

    def _types(self, named: Mapping[str, str]) -> dict[str, str]:
        full = fill_types(self, named)
        if not self.forms.accepts(full):
            given = ", ".join(f"{name} {fmt}" for name, fmt in full.items())
            raise UsageError(f"{self.name} does not take these formats together: {given}")
        return full

    def _shape(self, shape: Mapping[str, int], types: Mapping[str, str]) -> dict[str, int]:
        too_small = any(size < (dim not in self.forms.empty) for dim, size in shape.items())
        if set(shape) != set(self.dims) or too_small:
            given = ",".join(f"{dim}={size}" for dim, size in shape.items())
            declared = ",".join(f"{dim}=.." for dim in self.dims)
            raise UsageError(
                f"{self.name} has the shape {declared}, sizes of at least 1; got {given or 'none'}"
            )
        for binding in self.bindings:
            fmt, inner = format_named(types[binding.name]), binding.dims[-1]
            if shape[inner] % fmt.elements:
                raise UsageError(
                    f"{inner}={shape[inner]} is no multiple of {fmt.elements}, {fmt.name}'s block"
                )
        return {dim: shape[dim] for dim in self.dims}


@dataclass(frozen=True)
class Problem:
    """A case with its kernel and defaults filled in: what launches, inputs, references read."""

    kernel: Kernel
    case: Case
    settings: Settings = field(default_factory=dict)  # of parameters that the case leaves open

    @cached_property
    def types(self) -> dict[str, str]:
        """Format of every binding."""
        first, *rest = self.kernel.bindings
        chosen = {first.name: self.case.format}
        for binding in rest:
            default = binding.default_format(chosen)
            chosen[binding.name] = self.case.types.get(binding.name, default)
        return chosen

    @cached_property
    def params(self) -> dict[str, Value]:
        """Value of every parameter: the case's, or the setting, or the default."""
        defaults = {name: param.default for name, param in self.kernel.params.items()}
        return defaults | dict(self.settings) | dict(self._asked)

    @property
    def _asked(self) -> Settings:
        given = self.case.params
        return {name: given[name] for name in self.kernel.params if name in given}

    def candidates(self, device: DeviceFacts, variant: Variant | None = None) -> list[Settings]:
        """Settings that keep to those named, the best estimated first; there may be none."""
        tuning, kept = self.kernel.tuning, self.named_settings
        if tuning is None:
            return [{}]
        own = variant.choice.candidates if variant else None
        possible = (own or tuning.candidates)(self, device)
        return [
            settings
            for settings in possible
            if all(kept.get(n, v) == v for n, v in settings.items())
        ]

    @property
    def named_settings(self) -> Settings:
        """Values of tunable parameters that the case or the problem names."""
        named = {**self.settings, **self._asked}
        tuning = self.kernel.tuning
        return {name: named[name] for name in tuning.params if name in named} if tuning else {}

    @property
    def shape(self) -> Mapping[str, int]:
        return self.case.shape

    def format(self, binding: str) -> Format:
        """Format record of a binding."""
        return format_named(self.types[binding])

    def reads(self, binding: str) -> bool:
        """Whether the parameters leave a binding switched on."""
        return self.kernel.binding(binding).is_read(self.params)

    def layout(self, binding: str) -> Layout:
        """Where a binding's items lie; one that is not read is a single number."""
        return self._layouts.get(binding) or self._layouts.setdefault(binding, self._lay(binding))

    @cached_property
    def _layouts(self) -> dict[str, Layout]:
        return {}

    def _lay(self, binding: str) -> Layout:
        if not self.reads(binding):
            return Layout.contiguous((1,) * len(self.kernel.binding(binding).dims))
        if self.kernel.forms.layout:
            return self.kernel.forms.layout(self, binding)
        return Layout.contiguous(self.full_shape(binding))

    def array_shape(self, binding: str) -> tuple[int, ...]:
        """Shape of a binding's array."""
        return self.layout(binding).shape

    def full_shape(self, binding: str) -> tuple[int, ...]:
        """Shape that a binding's dimensions give; the last one in bytes for quantised formats."""
        sizes = [self.shape[dim] for dim in self.kernel.binding(binding).dims]
        return (*sizes[:-1], self.format(binding).items(sizes[-1]))

    def item_bytes(self, binding: str) -> int:
        """Bytes of one item of a binding's array."""
        return self.format(binding).dtype.itemsize

    @property
    def bytes_moved(self) -> int:
        """Bytes that one launch has to move."""
        return self.kernel.work.bytes_moved(self)

    @property
    def storage_bytes(self) -> int:
        """Bytes of all buffers."""
        names = [binding.name for binding in self.kernel.bindings]
        return sum(self.layout(name).storage * self.item_bytes(name) for name in names)

    @property
    def flops(self) -> int:
        """Floating point operations of one launch."""
        return self.kernel.work.flops(self)

    def seed(self, binding: str) -> int:
        """128 bits for a counter-based generator, from the case and the binding alone."""
        return int.from_bytes(
            hashlib.sha256(f"{self.case.name}#{binding}".encode()).digest()[:16], "little"
        )


def each_once(problem: Problem) -> int:
    """Bytes moved when each input is read once and each output written once."""
    bindings = [b.name for b in problem.kernel.bindings if b.is_read(problem.params)]
    return sum(prod(problem.array_shape(name)) * problem.item_bytes(name) for name in bindings)


def too_large(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a problem's buffers do not fit a device's limit on one buffer, or None."""
    most = device.limits.get("max_storage_range")
    for binding in problem.kernel.bindings:
        needed = problem.layout(binding.name).storage * problem.item_bytes(binding.name)
        if most is not None and needed > most:
            return f"{binding.name} has {needed} bytes, the device binds {most} at most"
    return None
