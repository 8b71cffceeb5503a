"""The arrays that a user's kernel is checked with: from npz files, or from a function in Python.

The function runs in this process, on the machine of whoever declares the kernel, and nowhere else.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, cast

import numpy as np

from vkbench_shaders.kernel import Array, Arrays, Problem
from vkbench_shaders.own import npz
from vkbench_shaders.own.declaration import Declared
from vkbench_shaders.own.formulas import Formula, Number, value_of
from vkbench_shaders.own.records import MOST_STORED_BYTES, UnfitDeclaration
from vkbench_shaders.quantisers import quants

MOST_PYTHON_BYTES: Final = 1 << 20
Function = Callable[[dict[str, Array], dict[str, Any]], Mapping[str, Any]]


def function_of(declared: Declared) -> Function | None:
    """The function that `reference = "file.py:name"` names; None where nothing is named."""
    declared_name = declared.table.reference
    if not declared_name:
        return None
    file, colon, name = declared_name.partition(":")
    if not colon:
        raise UnfitDeclaration(f"reference is FILE.py:FUNCTION, not '{declared_name}'")
    path = declared.file(file, (".py",), MOST_PYTHON_BYTES)
    try:
        function = runpy.run_path(str(path)).get(name)
    except Exception as error:
        raise UnfitDeclaration(_describe_error(path, error)) from error
    if not callable(function):
        raise UnfitDeclaration(f"{file} has no function {name}")
    return cast(Function, function)


def outputs_by(
    function: Function, declared: Declared, problem: Problem, inputs: Arrays
) -> dict[str, Array]:
    """What a reference function gives for a case, as the outputs store it.

    It gets numbers: floats and blocks in float64, integers as they are. Its second argument has the
    sizes and the parameters by name.
    """
    numbers = {name: _numbers(problem, name, array) for name, array in inputs.items()}
    given: dict[str, Any] = {**problem.shape, **problem.params}
    path = Path(declared.table.reference.partition(":")[0])
    try:
        outputs = function(numbers, given)
        named = {str(name): np.asarray(array) for name, array in dict(outputs).items()}
    except Exception as error:
        raise UnfitDeclaration(_describe_error(path, error)) from error
    names = [binding.name for binding in problem.kernel.bindings if binding.is_output]
    if sorted(named) != sorted(names):
        raise UnfitDeclaration(
            f"{path} gives {', '.join(named) or 'nothing'}, and the outputs are {', '.join(names)}"
        )
    return {name: _store(problem, name, named[name], str(path)) for name in names}


def store_numbers(
    problem: Problem, name: str, formulas: Sequence[Formula], known: Mapping[str, Number]
) -> Array:
    """An input that holds what formulas give, as its format stores it."""
    values = np.array([value_of(formula, known) for formula in formulas], np.float64)
    shape = problem.full_shape(name)
    if values.size != prod(shape):
        raise UnfitDeclaration(
            f"{name} has {values.size} numbers; {problem.case.name} has {list(shape)}"
        )
    return _store(problem, name, values.reshape(shape), "its declaration")


def from_npz(path: Path, problem: Problem) -> dict[str, Array]:
    """Arrays of an npz file: what each holds is read only if it is an array of the case."""
    try:
        return npz.read_npz(path, partial(_check, path, problem))
    except npz.BadNpz as error:
        raise UnfitDeclaration(f"{path.name} is no npz file: {error}") from error


def _check(path: Path, problem: Problem, header: npz.Header) -> None:
    """UnfitDeclaration unless an array is one of the case, and may travel with it."""
    name = header.name
    if name not in {binding.name for binding in problem.kernel.bindings}:
        raise UnfitDeclaration(f"{path.name} holds {name[:80]!r}, which is no binding")
    kind, shape = problem.format(name).dtype, problem.array_shape(name)
    if header.shape != shape or header.dtype != kind or header.is_fortran:
        order = ", in Fortran's order" if header.is_fortran else ""
        raise UnfitDeclaration(
            f"{name} of {path.name} is {header.dtype} {list(header.shape)}{order}; "
            f"{problem.case.name} takes {kind} {list(shape)}"
        )
    if header.bytes > MOST_STORED_BYTES:
        raise UnfitDeclaration(
            f"{name} of {path.name} has {header.bytes} bytes; {MOST_STORED_BYTES} are allowed"
        )


def _numbers(problem: Problem, name: str, array: Array) -> Array:
    fmt = problem.format(name)
    if fmt.name[0] in "iu" and not fmt.quantised:
        return array
    return quants.dequantise(fmt.name, array)


def _store(problem: Problem, name: str, values: Array, who: str) -> Array:
    """An array as its format stores it; numbers are rounded to it."""
    fmt, shape = problem.format(name), problem.array_shape(name)
    if fmt.quantised and values.dtype != np.uint8:
        if not fmt.encoded:
            raise UnfitDeclaration(f"{who}: nothing rounds {name} to {fmt.name}: give its bytes")
        values = quants.quantise(fmt.name, values.astype(np.float64))
    if values.shape != shape:
        raise UnfitDeclaration(
            f"{who} gives {name} as {list(values.shape)}; {problem.case.name} has {list(shape)}"
        )
    if values.dtype == fmt.dtype:
        return np.ascontiguousarray(values)
    if values.dtype.kind not in "iufb":
        raise UnfitDeclaration(f"{who} gives {name} as {values.dtype}, which are no numbers")
    if fmt.dtype.kind in "iu" and fmt.name[0] in "iu":
        whole = values.astype(fmt.dtype)
        if not np.array_equal(whole, values):
            raise UnfitDeclaration(f"{who} gives {name} numbers that no {fmt.name} can hold")
        return whole
    return quants.quantise(fmt.name, values.astype(np.float64))


def _describe_error(path: Path, error: Exception) -> str:
    """An exception of a user's code in one line, with where it came from."""
    lines = [
        frame.lineno for frame in extract_tb(error.__traceback__) if path.name in frame.filename
    ]
    where = f"{path.name}, line {lines[-1]}" if lines else path.name
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split())}"
