"""A user's arrays for one kernel: read from an npz file, checked against its bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vkbench.case import Value
from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import format_named
from vkbench_shaders.gguf_file import open_gguf, part_of, sizes_of
from vkbench_shaders.kernel import Array, Arrays, Binding, Kernel, Problem
from vkbench_shaders.own.npz import BadNpz, read_npz


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Formats, sizes and parameters that the user gave for the arrays."""

    types: Mapping[str, str]  # binding -> format
    shape: Mapping[str, int]
    params: Mapping[str, str]  # as typed


def read_arrays(path: Path) -> dict[str, Array]:
    """Every array of an npz file; UsageError if it is none, or holds Python objects."""
    try:
        return read_npz(path)
    except BadNpz as error:
        raise UsageError(f"{path} is not a complete npz file of plain arrays: {error}") from error


def fit(kernel: Kernel, arrays: Arrays, wishes: Asked) -> tuple[Problem, dict[str, Array]]:
    """The problem that these arrays pose, and the arrays by binding; UsageError if they do not fit.

    Leading dimensions that an array lacks are taken as 1.
    """
    params = _params(kernel, wishes.params)
    read = kernel.inputs_read(params)
    mine = _by_binding(kernel, read, arrays)
    types = _formats(kernel, mine, wishes.types)
    for binding in read:
        _check_dtype(binding, types[binding.name], mine[binding.name])
    shapes = {binding.name: _fill_shape(kernel, binding, mine[binding.name]) for binding in read}
    shape = wishes.shape or kernel.sizes(shapes, types)
    posed = problem(kernel.case(types, shape, params))
    return posed, {name: _shape_array(posed, name, array) for name, array in mine.items()}


def with_tensor(
    kernel: Kernel, arrays: Arrays, wishes: Asked, gguf: Path, tensor: str
) -> tuple[dict[str, Array], Asked]:
    """The arrays with a file's tensor as the first binding, cut to the sizes of --shape."""
    first = kernel.bindings[0]
    if not kernel.reads_weights:
        raise UsageError(f"{kernel.name} reads no weights: leave --gguf out")
    if first.name in arrays:
        raise UsageError(f"{first.name} comes from --gguf: leave it out of --input")
    file = open_gguf(gguf)
    form = file.tensor(tensor).format
    assert form
    sizes = sizes_of(file.tensor(tensor).shape, first.dims) | {
        dim: size for dim, size in wishes.shape.items() if dim in first.dims
    }
    shape = (*(sizes[dim] for dim in first.dims[:-1]), form.items(sizes[first.dims[-1]]))
    whole = wishes.shape.keys() == set(kernel.dims)
    return {**arrays, first.name: part_of(file.read(tensor), shape)}, replace(
        wishes,
        types={first.name: form.name, **wishes.types},
        shape=wishes.shape if whole else {},
    )


def _params(kernel: Kernel, typed: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for word, text in typed.items():
        name = names.pick(word, kernel.params, f"parameter of {kernel.name}")
        kind = type(kernel.params[name].default)
        try:
            value = kind(text)
        except ValueError as error:
            raise UsageError(
                f"{kernel.name}'s {name} is of type {kind.__name__}: {text}"
            ) from error
        values[name] = kernel.params[name].pick_value(value, f"value of {kernel.name}'s {name}")
    return values


def _by_binding(kernel: Kernel, read: Sequence[Binding], arrays: Arrays) -> dict[str, Array]:
    """The arrays in the order of the bindings: those that are read, and all of them."""
    known = [binding.name for binding in kernel.bindings if binding.is_input]
    by_name = {names.pick(name, known, f"input of {kernel.name}"): arrays[name] for name in arrays}
    required = [binding.name for binding in read]
    for name in by_name:
        if name not in required:
            raise UsageError(_describe_unread(kernel, kernel.binding(name)))
    missing = [name for name in required if name not in by_name]
    if missing or len(by_name) != len(arrays):
        what = f"{' and '.join(missing)} missing" if missing else "one array is given twice"
        raise UsageError(f"{kernel.name} takes the arrays {', '.join(required)}: {what}")
    return {name: by_name[name] for name in required}


def _describe_unread(kernel: Kernel, binding: Binding) -> str:
    conditions = [
        " or ".join(f"--param {param}={value}" for value in values)
        for param, values in binding.when.items()
    ]
    return f"{kernel.name} reads {binding.name} only with {' and '.join(conditions)}"


def _formats(kernel: Kernel, arrays: Arrays, typed: Mapping[str, str]) -> dict[str, str]:
    """A format for every binding: named by an option, read off its array, or paired with those."""
    named = {kernel.binding(name).name: form for name, form in typed.items()}
    fixed = {
        binding.name: _format(kernel, binding, arrays, named)
        for binding in kernel.bindings
        if binding.name in arrays or binding.name in named
    }
    return next((full for full in kernel.type_choices() if fixed.items() <= full.items()), fixed)


def _format(kernel: Kernel, binding: Binding, arrays: Arrays, types: Mapping[str, str]) -> str:
    if binding.name in types:
        return names.pick(types[binding.name], binding.types, f"format of {binding.name}")
    if binding.same_as:
        return _format(kernel, kernel.binding(binding.same_as), arrays, types)
    dtype = arrays[binding.name].dtype
    if binding.follows:
        followed = _format(kernel, kernel.binding(binding.follows), arrays, types)
        if format_named(followed).dtype == dtype:
            return followed
    fitting = [name for name in binding.types if format_named(name).dtype == dtype]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(
            f"{binding.name} is an array of {dtype}, which may be {', '.join(fitting)}: "
            f"choose one with {_option(kernel, binding)}"
        )
    return binding.types[0]


def _option(kernel: Kernel, binding: Binding) -> str:
    first = binding.name == kernel.bindings[0].name
    return "--format" if first else f"--type {binding.name}=FORMAT"


def _check_dtype(binding: Binding, name: str, array: Array) -> None:
    form = format_named(name)
    if array.dtype != form.dtype:
        blocks = f" holding whole blocks of {form.bytes} bytes" if form.quantised else ""
        raise UsageError(
            f"{binding.name} in {form.name} is an array of {form.dtype}{blocks}; got {array.dtype}"
        )


def _fill_shape(kernel: Kernel, binding: Binding, array: Array) -> tuple[int, ...]:
    """The shape of an array, with ones for the outer dimensions that it lacks."""
    lacking = 0 if kernel.forms.whole else len(binding.dims) - array.ndim
    return (1,) * lacking + array.shape


def _shape_array(posed: Problem, name: str, array: Array) -> Array:
    """The array in the shape of the problem; UsageError if more than outer ones are missing."""
    expected = posed.array_shape(name)
    lacking = 0 if posed.kernel.forms.whole else len(expected) - array.ndim
    if (1,) * lacking + array.shape != expected:
        dims = ", ".join(posed.kernel.binding(name).dims)
        raise UsageError(
            f"{name} ({dims}) has the shape {_sizes(expected)} in {posed.case.name}; "
            f"got {_sizes(array.shape)}"
        )
    return np.ascontiguousarray(array).reshape(expected)


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "of a single number"
