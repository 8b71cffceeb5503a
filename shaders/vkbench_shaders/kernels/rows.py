"""Rows in memory, for kernels that take and make matrices row by row: without gaps, or with them."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench_shaders.kernel import Layout, Param, Problem

LAYOUT = Param(
    default="contiguous",
    choices=("contiguous", "strided"),
    description="how rows lie: without gaps, or with one behind each, after an offset",
)

# strided: (offset, gap) in items; quantised formats have a block of each
_INPUT = (5, 3)
_OUTPUT = (7, 2)


def layout(problem: Problem, binding: str) -> Layout:
    """Where the rows of a binding lie, by the parameter `layout`."""
    shape = problem.full_shape(binding)
    if problem.params["layout"] == "strided":
        return strided(shape, *gaps(problem, binding))
    return Layout.contiguous(shape)


def gaps(problem: Problem, binding: str) -> tuple[int, int]:
    """Items in front of a strided array, and behind each of its rows."""
    fmt = problem.format(binding)
    if fmt.quantised:
        return fmt.bytes, fmt.bytes
    return _OUTPUT if problem.kernel.binding(binding).access == "out" else _INPUT


def strided(shape: Sequence[int], offset: int, gap: int) -> Layout:
    """Rows with a gap behind each, after an offset."""
    padded = Layout.contiguous((*shape[:-1], shape[-1] + gap))
    return Layout(
        shape=tuple(shape),
        strides=padded.strides,
        offset=offset,
        storage=offset + padded.storage,
    )
