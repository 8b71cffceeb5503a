"""The records that a kernel is declared with, and a case resolved against them.

A kernel is one `Kernel(...)` in `kernels/<family>.py` and its shader; everything else reads these records.

Arrays are numpy arrays of a format's storage type: float32, float16, uint16 for bf16, and for quantised formats
uint8 whose last axis holds whole blocks (bytes a row). A `Layout` counts in items of that array.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from vkbench import names
from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.formats import Format, format_named

Array = np.ndarray
Arrays = Mapping[str, Array]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a binding's items lie in its storage, in items of its array type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    storage: int  # items that the buffer holds, gaps included

    @staticmethod
    def contiguous(shape: Sequence[int]) -> Layout:
        """Rows after rows, no gaps."""
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return Layout(shape=tuple(shape), strides=tuple(strides), storage=prod(shape))

    def view(self, storage: Array) -> Array:
        """The items of a flat storage array, shaped."""
        item = storage.itemsize
        return np.lib.stride_tricks.as_strided(
            storage[self.offset :], self.shape, [stride * item for stride in self.strides]
        )


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One storage buffer of a kernel; its place in the tuple is its Vulkan binding number."""

    name: str
    access: str  # in | out
    types: tuple[str, ...]  # formats it may hold, the default first
    dims: tuple[str, ...]  # outermost first; a quantised format's blocks run along the last
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Param:
    """A parameter of a kernel that is neither a size nor a format."""

    default: Value
    choices: tuple[Value, ...] = ()  # empty: any value of the default's type
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One dispatch: how many workgroups, with which constants."""

    groups: tuple[int, int, int]
    push: bytes  # push constants, at most 128 bytes
    constants: Mapping[int, int] = field(default_factory=dict)  # specialisation constant -> value


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One code path of a kernel."""

    name: str  # portable, subgroup, ...
    module: str  # Slang file without its ending, in the shader tree
    entry: str  # entry point in it
    arguments: Callable[[Mapping[str, str]], tuple[str, ...]]  # binding formats -> generic arguments
    launch: Callable[[Problem, DeviceFacts], Launch]
    path: str  # arithmetic path, whose limits judge it: a key of tolerance.LIMITS
    requires: tuple[str, ...] = ()  # device features
    refuses: Callable[[Problem, DeviceFacts], str | None] = lambda problem, device: None  # why it cannot, or None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Everything there is to say about one kernel."""

    name: str
    description: str  # one sentence
    dims: tuple[str, ...]  # in the order of the case's name
    bindings: tuple[Binding, ...]
    variants: tuple[Variant, ...]  # best first; the last runs on every device
    inputs: Callable[[Problem], dict[str, Array]]  # shaped arrays, from the case alone
    reference: Callable[[Problem, Arrays, Array | None], dict[str, Array]]  # outputs; only some `rows` if given
    flops: Callable[[Problem], int]
    infer: Callable[[Mapping[str, tuple[int, ...]], Mapping[str, str]], dict[str, int]]  # array shapes, formats -> sizes
    cases: tuple[Case, ...]  # checked; made with `case_of` after the kernel is known, see families
    timed: tuple[Case, ...]  # timed (and checked)
    rows: str = ""  # the dimension a sampled check picks from; "": always whole
    params: Mapping[str, Param] = field(default_factory=dict)
    layout: Callable[[Problem, str], Layout] | None = None  # of a binding; None: contiguous
    deterministic: bool = True  # the same bits every time

    def binding(self, name: str) -> Binding:
        """A binding by name, whatever its case."""
        found = names.pick(name, [b.name for b in self.bindings], f"binding of {self.name}")
        return next(b for b in self.bindings if b.name == found)

    def variant(self, name: str) -> Variant:
        """A variant by name, whatever its case."""
        found = names.pick(name, [v.name for v in self.variants], f"variant of {self.name}")
        return next(v for v in self.variants if v.name == found)

    def case(self, types: Mapping[str, str], shape: Mapping[str, int], params: Mapping[str, Value] | None = None) -> Case:
        """A canonical case: defaults left out, names spelled as declared; UsageError for what does not exist."""
        full = {b.name: self._type_of(b, types) for b in self.bindings}
        unknown = set(types) - {b.name for b in self.bindings}
        if unknown:
            self.binding(unknown.pop())
        first, *rest = self.bindings
        return Case(
            kernel=self.name,
            format=full[first.name],
            shape=self._shape(shape),
            types={b.name: full[b.name] for b in rest if full[b.name] != b.types[0]},
            params=self._params(params or {}),
        )

    def _type_of(self, binding: Binding, types: Mapping[str, str]) -> str:
        asked = types.get(binding.name, binding.types[0])
        return names.pick(asked, binding.types, f"format of {self.name}'s {binding.name}")

    def _shape(self, shape: Mapping[str, int]) -> dict[str, int]:
        if set(shape) != set(self.dims) or any(size < 1 for size in shape.values()):
            given = ",".join(f"{dim}={size}" for dim, size in shape.items())
            wanted = ",".join(f"{dim}=.." for dim in self.dims)
            raise UsageError(f"{self.name} has the shape {wanted} with sizes of at least 1; got {given or 'none'}")
        return {dim: shape[dim] for dim in self.dims}

    def _params(self, params: Mapping[str, Value]) -> dict[str, Value]:
        changed: dict[str, Value] = {}
        for asked, value in params.items():
            name = names.pick(asked, list(self.params), f"parameter of {self.name}")
            param = self.params[name]
            if param.choices and value not in param.choices:
                raise UsageError(f"{self.name}'s {name} is one of {', '.join(map(str, param.choices))}; got {value}")
            if value != param.default:
                changed[name] = value
        return changed


@dataclass(frozen=True)
class Problem:
    """A case with its kernel and every default filled in: what launches, inputs and references read."""

    kernel: Kernel
    case: Case

    @cached_property
    def types(self) -> dict[str, str]:
        """Format of every binding."""
        first, *rest = self.kernel.bindings
        chosen = {first.name: self.case.format}
        return chosen | {b.name: self.case.types.get(b.name, b.types[0]) for b in rest}

    @cached_property
    def params(self) -> dict[str, Value]:
        """Value of every parameter."""
        return {name: self.case.params.get(name, param.default) for name, param in self.kernel.params.items()}

    @property
    def shape(self) -> Mapping[str, int]:
        return self.case.shape

    def format(self, binding: str) -> Format:
        """Format record of a binding."""
        return format_named(self.types[binding])

    def layout(self, binding: str) -> Layout:
        """Where a binding's items lie."""
        if self.kernel.layout:
            return self.kernel.layout(self, binding)
        return Layout.contiguous(self.array_shape(binding))

    def array_shape(self, binding: str) -> tuple[int, ...]:
        """Shape of a binding's array: logical sizes, the last one in bytes for quantised formats."""
        sizes = [self.shape[dim] for dim in self.kernel.binding(binding).dims]
        return (*sizes[:-1], self.format(binding).items(sizes[-1]))

    def seed(self, binding: str) -> int:
        """128 bits for a counter-based generator, from the case and the binding alone."""
        return int.from_bytes(hashlib.sha256(f"{self.case.name}#{binding}".encode()).digest()[:16], "little")
