"""Lookup tables of the formats whose codes are places in one: kernels read them from a buffer.

As constants of a shader they cost a CPU driver up to a minute a pipeline, and a GPU a divergent
read a word. They are gguf's, which is imported when a grid is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.kernel import Array, Problem

BINDING: Final = 15  # where shaders expect the table; kernels have fewer bindings than that
_TERNARY = "IQ1_S"


def table(problem: Problem) -> NDArray[np.uint32] | None:
    """The words to bind at BINDING for what a problem reads, or None if it needs none."""
    read = (problem.format(b.name) for b in problem.kernel.bindings if b.is_input)
    grid = next((fmt.grid for fmt in read if fmt.grid), "")
    return words(grid) if grid else None


@cache
def words(grid: str) -> NDArray[np.uint32]:
    """A table of gguf's, packed: signed bytes, four a word, and ternary rows of eight in a word.

    A ternary word's byte i holds value i plus one, and in its upper nibble value 4 + i plus one.
    """
    table = values(grid).astype(np.int8)
    if grid == _TERNARY:
        digits = (table + 1).astype(np.uint8)
        table = digits[:, :4] | digits[:, 4:] << 4
    packed: NDArray[np.uint32] = np.ascontiguousarray(table).view("<u4").reshape(-1)
    packed.flags.writeable = False
    return packed


def values(grid: str) -> Array:
    """A table of gguf's as it is: vectors of numbers, or a row of them."""
    from gguf import quants

    source = getattr(quants, grid)
    if hasattr(source, "kvalues"):
        return np.array(source.kvalues)
    source.init_grid()
    return np.asarray(source.grid.reshape(-1, source.grid_shape[1]))
