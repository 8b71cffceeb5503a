"""Rows in registers: how many threads hold one, and how long rows are cut; row_values.slang's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from vkbench_shaders.kernel import MOST_GROUPS, Layout, Problem, grid

THREADS = 128  # a workgroup of short rows
_LANES = (8, 16, 32, 64, 128, 256)
EACH = 32  # numbers a lane
BUSY = 512  # workgroups that keep a large GPU busy: fewer get shorter stretches


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Rows, cut into stretches if they are long, and the threads that hold them."""

    rows: int
    columns: int
    aligned: bool

    @property
    def whole(self) -> bool:
        """Whether a team of lanes holds a row."""
        return self.columns <= self._most(_LANES[-1])

    @property
    def lanes(self) -> int:
        """Threads that hold a stretch."""
        if self.whole:
            return next(n for n in _LANES if self.columns <= self._most(n))
        return next((n for n in (256, 128) if self.rows * self.stretches_of(n) >= BUSY), 64)

    @property
    def threads(self) -> int:
        """A workgroup's."""
        return max(self.lanes, THREADS) if self.whole else self.lanes

    @property
    def length(self) -> int:
        """Columns of a stretch."""
        return self.columns if self.whole else self._most(self.lanes)

    @property
    def stretches(self) -> int:
        """Of a row."""
        return 1 if self.whole else self.stretches_of(self.lanes)

    @property
    def groups(self) -> tuple[int, int, int]:
        """Workgroups: rows along x and y, stretches of them along z."""
        return grid(-(-self.rows // (self.threads // self.lanes)), depth=self.stretches)

    @property
    def constants(self) -> dict[int, int]:
        """The specialisation constants of row_values.slang."""
        return {0: self.threads, 1: self.lanes, 2: self.aligned}

    def stretches_of(self, lanes: int) -> int:
        """Of a row that so many threads hold."""
        return -(-self.columns // self._most(lanes))

    def _most(self, lanes: int) -> int:
        """Columns that so many threads can hold: a word less where words begin before a row."""
        return lanes * EACH if self.aligned else lanes * EACH - 2


def cut(rows: int, columns: int, aligned: bool) -> Cut:
    return Cut(rows=rows, columns=columns, aligned=aligned)


def aligned(problem: Problem, bindings: Iterable[str], columns: int) -> bool:
    """Whether rows of all these arrays begin and end on 16 bytes."""
    return not any(
        number % (16 // problem.item_bytes(name))
        for name in bindings
        for number in (columns, *place(problem.layout(name)))
    )


def place(layout: Layout) -> tuple[int, int]:
    """Offset and stride of an array's rows, in items."""
    return layout.offset, layout.strides[-2] if len(layout.strides) > 1 else layout.storage


def rows_of(layout: Layout) -> int:
    return prod(layout.shape[:-1])


def too_long(cut: Cut) -> str | None:
    """Why rows cannot be cut, or None."""
    if cut.stretches > MOST_GROUPS:
        return f"rows have {cut.columns} columns: {cut.stretches} stretches, {MOST_GROUPS} at most"
    return None
