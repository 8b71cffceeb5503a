"""Rows in memory, without gaps or with them, and the stretches of them that workgroups decode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vkbench.case import Case
from vkbench_shaders.kernel import Layout, Param, Problem, grid

LAYOUT = Param(
    default="contiguous",
    choices=("contiguous", "strided"),
    description="how rows lie: without gaps, or with one behind each, after an offset",
)

STRETCH = 4096  # numbers that a workgroup makes, all of one row: that of rows.slang

RAGGED = 33  # columns of a small plain row: no vector's multiple, so that rows begin anywhere

# strided: (offset, gap) in items; quantised formats have a block of each
_INPUT = (5, 3)
_OUTPUT = (7, 2)


def layout(problem: Problem, binding: str) -> Layout:
    """Where the rows of a binding lie, by the parameter `layout`."""
    shape = problem.full_shape(binding)
    if problem.params["layout"] == "strided":
        return Layout.with_gaps(shape, *gaps(problem, binding))
    return Layout.contiguous(shape)


def gaps(problem: Problem, binding: str) -> tuple[int, int]:
    """Items in front of a strided array, and behind each of its rows."""
    fmt = problem.format(binding)
    if fmt.quantised:
        return fmt.bytes, fmt.bytes
    return _INPUT if problem.kernel.binding(binding).is_input else _OUTPUT


def stretches(rows: int, columns: int) -> tuple[int, int, int]:
    """Workgroups, one for each stretch of each row."""
    return grid(rows * -(-columns // STRETCH))


def list_cases(
    kernel: str,
    fmt: str,
    types: Mapping[str, str],
    dims: Iterable[str],
    shapes: Iterable[tuple[int, ...]],
    how: str = "contiguous",
) -> Iterator[Case]:
    """Cases of these sizes, with their rows lying so."""
    for sizes in shapes:
        shape = dict(zip(dims, sizes, strict=True))
        params = {} if how == LAYOUT.default else {"layout": how}
        yield Case(kernel=kernel, format=fmt, shape=shape, types=types, params=params)
