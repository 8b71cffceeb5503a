"""What a kernel is given: storage buffers, where items lie in them, and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

import numpy as np

from vkbench.case import SEED, WEIGHTS, Value
from vkbench.errors import UsageError
from vkbench.words import names


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One storage buffer of a kernel; its place in the tuple is its Vulkan binding number."""

    name: str
    access: str  # in | out | inout: changed in place, its input there before every checked run
    types: tuple[str, ...]  # formats it may hold, the default first
    dims: tuple[str, ...]  # outermost first; a quantised format's blocks run along the last
    same_as: str = ""  # the binding whose format it always has, if any
    follows: str = ""  # the binding whose format it has unless another one is named, if any
    exact: bool = False  # an output judged bit for bit, whatever the path of what lies beside it
    description: str = ""
    # parameters and their values with which an input is read; with others its array is one number
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def is_read(self, params: Mapping[str, Value]) -> bool:
        """Whether parameters leave an input switched on."""
        return all(params[name] in values for name, values in self.when.items())

    def default_format(self, chosen: Mapping[str, str]) -> str:
        """Its format where none is named, by those of the bindings before it."""
        leading = self.same_as or self.follows
        return chosen[leading] if leading else self.types[0]

    def list_formats(self, chosen: Mapping[str, str]) -> tuple[str, ...]:
        """The formats it may have beside those of the bindings before it, its default first."""
        default = self.default_format(chosen)
        others = () if self.same_as else self.types
        return (default, *(fmt for fmt in others if fmt != default))

    @property
    def is_input(self) -> bool:
        """Whether a launch reads what the caller gives."""
        return self.access in ("in", "inout")

    @property
    def is_output(self) -> bool:
        """Whether a launch writes to it."""
        return self.access in ("out", "inout")


def declare_input(
    name: str,
    types: tuple[str, ...],
    dims: tuple[str, ...],
    description: str,
    *,
    same_as: str = "",
    when: Mapping[str, tuple[Value, ...]] | None = None,
) -> Binding:
    """A binding that a kernel only reads."""
    return Binding(
        name=name,
        access="in",
        types=types,
        dims=dims,
        same_as=same_as,
        description=description,
        when=when or {},
    )


def declare_output(
    name: str,
    types: tuple[str, ...],
    dims: tuple[str, ...],
    description: str,
    *,
    same_as: str = "",
    exact: bool = False,
) -> Binding:
    """A binding that a kernel only writes."""
    return Binding(
        name=name,
        access="out",
        types=types,
        dims=dims,
        same_as=same_as,
        description=description,
        exact=exact,
    )


@dataclass(frozen=True, kw_only=True)
class Param:
    """A parameter of a kernel that is neither a size nor a format."""

    default: Value
    choices: tuple[Value, ...] = ()  # empty: any value of the default's type
    description: str = ""
    least: int | None = None  # smallest value, if numbers have one

    def with_choices(self, *more: Value) -> Param:
        """This parameter with further choices."""
        return replace(self, choices=(*self.choices, *more))

    def pick_value(self, value: Value, what: str) -> Value:
        """A value as declared, whatever its case; UsageError for one that may not be."""
        if self.choices:
            by_text = {str(choice): choice for choice in self.choices}
            return by_text[names.pick(str(value), by_text, what)]
        if not isinstance(value, type(self.default)):
            raise UsageError(f"the {what} is a {type(self.default).__name__}; got {value!r}")
        if self.least is not None and not isinstance(value, str) and value < self.least:
            raise UsageError(f"the {what} is at least {self.least}; got {value}")
        return value


def tensor_hash(value: Value) -> str:
    """The parameter `weights`: what a tensor hashes to."""
    if not re.fullmatch("[0-9a-f]{16}", str(value)):
        raise UsageError(f"{WEIGHTS} is the SHA-256 of a tensor, its first 16 digits; got {value}")
    return str(value)


def seed_of(value: Value) -> int:
    """The parameter `seed`: a whole number."""
    if not isinstance(value, int) or value < 0:
        raise UsageError(f"{SEED} is a whole number of at least 0; got {value}")
    return value


class Declared(Protocol):
    """What a kernel declares of its arrays and parameters."""

    @property
    def name(self) -> str: ...
    @property
    def dims(self) -> tuple[str, ...]: ...
    @property
    def bindings(self) -> tuple[Binding, ...]: ...
    @property
    def params(self) -> Mapping[str, Param]: ...
    @property
    def reads_weights(self) -> bool: ...
    def binding(self, name: str, /) -> Binding:
        """A binding by name, whatever its case."""
        ...


def sizes_of(kernel: Declared, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Sizes of a kernel's dimensions, from the shapes of arrays of its bindings."""
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        dims = kernel.binding(name).dims
        if len(shape) != len(dims):
            expected = f"{len(dims)} dimensions ({', '.join(dims)})"
            raise UsageError(f"{name} has {expected}, got {len(shape)}")
        for dim, size in zip(dims, shape, strict=True):
            if 1 not in (size, known := sizes.get(dim, size)) and known != size:
                raise UsageError(f"{dim} is {known} in one array and {size} in {name}")
            sizes[dim] = size if known == 1 else known
    if unknown := [dim for dim in kernel.dims if dim not in sizes]:
        raise UsageError(f"no array says how large {', '.join(unknown)} is: give the shape")
    return {dim: sizes[dim] for dim in kernel.dims}


def fill_types(kernel: Declared, given: Mapping[str, str]) -> dict[str, str]:
    """A format for every binding: the one that is given, else its first one."""
    given = {kernel.binding(name).name: fmt for name, fmt in given.items()}
    full: dict[str, str] = {}
    for binding in kernel.bindings:
        default = binding.default_format(full)
        choices = (default,) if binding.same_as else binding.types
        what = f"format of {kernel.name}'s {binding.name}"
        full[binding.name] = names.pick(given.get(binding.name, default), choices, what)
    return full


def list_types(kernel: Declared) -> Iterator[dict[str, str]]:
    """Every combination of formats that bindings may have, the default of each one first."""
    choices: list[dict[str, str]] = [{}]
    for binding in kernel.bindings:
        choices = [
            {**full, binding.name: fmt} for full in choices for fmt in binding.list_formats(full)
        ]
    yield from choices


def changed_params(kernel: Declared, given: Mapping[str, Value]) -> dict[str, Value]:
    """Parameters that differ from their defaults, by their names as declared."""
    changed: dict[str, Value] = {}
    for param, value in given.items():
        if param == WEIGHTS and kernel.reads_weights:
            changed[WEIGHTS] = tensor_hash(value)
            continue
        if param == SEED and SEED not in kernel.params:
            changed |= {SEED: seed} if (seed := seed_of(value)) else {}
            continue
        name = names.pick(param, list(kernel.params), f"parameter of {kernel.name}")
        chosen = kernel.params[name].pick_value(value, f"value of {kernel.name}'s {name}")
        if chosen != kernel.params[name].default:
            changed[name] = chosen
    return changed


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

    @staticmethod
    def with_gaps(shape: Sequence[int], offset: int, gap: int) -> Layout:
        """Rows with a gap behind each, after an offset."""
        padded = Layout.contiguous((*shape[:-1], shape[-1] + gap))
        return replace(padded, shape=tuple(shape), offset=offset, storage=offset + padded.storage)

    @staticmethod
    def in_order(
        shape: Sequence[int], axes: Sequence[int], offset: int = 0, gap: int = 0
    ) -> Layout:
        """Dimensions that lie in memory in the order of `axes`, outermost first."""
        stored = Layout.with_gaps([shape[axis] for axis in axes], offset, gap)
        strides = tuple(stored.strides[axes.index(axis)] for axis in range(len(shape)))
        return replace(stored, shape=tuple(shape), strides=strides)

    def view(self, storage: np.ndarray) -> np.ndarray:
        """The items of a flat storage array, shaped."""
        item = storage.itemsize
        return np.lib.stride_tricks.as_strided(
            storage[self.offset :], self.shape, [stride * item for stride in self.strides]
        )
