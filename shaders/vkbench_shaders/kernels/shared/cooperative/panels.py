"""Factors of products, and how they are packed to 16 bits in the order that a product reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Launch, Problem, Push, grid
from vkbench_shaders.kernels.shared.cooperative.tiles import STEP

EIGHT = 8  # numbers in 16 bytes
_ROWS = 16  # of contiguous rows, that a workgroup packs
_STEPS = 8  # along k, at a time
_COLUMN_ROWS = 64  # of rows that are not contiguous, that a workgroup packs
_COLUMN_STEPS = 4  # along k, at a time
_MOST_EACH = 8  # times that many steps: a workgroup reads its format's table once
_ENOUGH_GROUPS = 2048  # to keep a GPU busy
_WIDE = 16  # bytes of the widest load


class Lies(IntEnum):
    """How a product reads a factor: the numbers of slang/matrices/cooperative_product.slang."""

    ROWS = 0
    PANELS = 1
    COLUMNS = 2
    NUMBERS = 3  # of f32, which are rounded on the way


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One factor of a product: rows along k that give rows or columns of y."""

    fmt: str
    rows: int
    numbers: int  # of a row
    matrices: int
    first: int  # where it lies: in numbers, or in bytes of formats with blocks
    row: int
    k: int
    matrix: int
    along: bool  # whether rows are without gaps, rather than columns
    wide: bool  # whether what is adjacent comes in whole fours that begin at one
    inner: int = 1 << 20  # matrices of a batch, each for `repeat` of y's; batches for `outer`
    repeat: int = 1
    outer: int = 1

    @classmethod
    def of_rows(cls, problem: Problem, binding: str, rows: int, matrices: int) -> Factor:
        """A binding whose rows go along k; its matrices lie one behind the other, as rows do."""
        lies, numbers = problem.layout(binding), problem.shape["k"]
        unit = problem.item_bytes(binding) if problem.format(binding).quantised else 1
        first, row = lies.offset * unit, lies.strides[-2] * unit
        return cls(
            fmt=problem.types[binding],
            rows=rows,
            numbers=numbers,
            matrices=matrices,
            first=first,
            row=row,
            k=1,
            matrix=rows * row,
            along=True,
            wide=all(number % 4 == 0 for number in (numbers, first, row)),
        )

    @property
    def quantised(self) -> bool:
        return format_named(self.fmt).quantised

    @property
    def batches(self) -> dict[str, int]:
        """How many of y's matrices each of its matrices serves: push constants of the shaders."""
        return {"inner": self.inner, "repeat": self.repeat, "repeat_outer": self.outer}

    def bytes_at(self, item: int) -> Push:
        """The shaders' Rows: where it lies in bytes, of which a plain number has `item`."""
        unit = 1 if self.quantised else item
        places = {"first": self.first, "row": self.row, "matrix": self.matrix}
        numbers = {name: place * unit for name, place in places.items()}
        return {"count": self.rows, **numbers, **self.batches}

    @property
    def steps(self) -> int:
        """Steps of a product along k."""
        return -(-self.numbers // STEP)

    def is_direct(self, element: str, side: int) -> bool:
        """Whether a product by tiles of so many rows reads it where it lies, row by row."""
        return self._is_whole(element, side) and self.k == 1 and self.row % EIGHT == 0

    def lies(self, element: str, side: int) -> Lies:
        """How a product by tiles of so many rows reads it."""
        if self.is_direct(element, side):
            return Lies.ROWS
        if self._is_whole(element, side) and self.row == 1 and self.k % EIGHT == 0:
            return Lies.COLUMNS
        return Lies.PANELS

    def rounds_in_place(self, element: str, side: int) -> bool:
        """Whether a product by tiles of so many rows may round numbers of f32 on the way."""
        as_halves = replace(self, fmt=element)
        return self.fmt == "f32" and element == "f16" and as_halves.is_direct(element, side)

    def _is_whole(self, element: str, side: int) -> bool:
        """Whether it comes in whole tiles and steps, whose numbers begin on eights."""
        whole = self.numbers % STEP == 0 and self.rows % side == 0
        begins = self.first % EIGHT == 0 and self.matrix % EIGHT == 0
        return self.fmt == element and whole and begins

    def padded_rows(self, side: int) -> int:
        """Rows of a panel."""
        return -(-self.rows // side) * side

    def panel_bytes(self, side: int) -> int:
        """Bytes of all its panels."""
        return 2 * self.matrices * self.steps * STEP * self.padded_rows(side)

    def pack(self, binding: str, side: int) -> Launch:
        """The launch that packs it as panels, for a product by tiles of so many rows."""
        return (_pack_rows if self.along else _pack_columns)(self, binding, side)


def _pack_rows(factor: Factor, binding: str, side: int) -> Launch:
    padded = factor.padded_rows(side)
    blocks = -(-padded // _ROWS)
    eights = -(-factor.steps // _STEPS)
    repeats = min(_MOST_EACH, max(1, factor.matrices * blocks * eights // _ENOUGH_GROUPS))
    parts = -(-eights // repeats)
    groups = grid(factor.matrices * blocks * parts)
    item = 1 if factor.quantised else format_named(factor.fmt).bytes
    wide = factor.quantised or (
        factor.numbers % STEP == 0
        and all(place * item % _WIDE == 0 for place in (factor.first, factor.row, factor.matrix))
    )
    return Launch(
        groups=groups,
        push={
            **_push(factor, side, groups, item),
            "part": repeats * _STEPS,
            "parts": parts,
            "blocks": blocks,
        },
        constants={"WIDE": wide},
        entry=f"pack_rows_{binding}",
    )


def _pack_columns(factor: Factor, binding: str, side: int) -> Launch:
    blocks = -(-factor.padded_rows(side) // _COLUMN_ROWS)
    parts = -(-factor.steps // _COLUMN_STEPS)
    groups = grid(factor.matrices * blocks * parts)
    return Launch(
        groups=groups,
        push={**_push(factor, side, groups), "k": factor.k, "parts": parts, "blocks": blocks},
        constants={"WIDE": factor.wide},
        entry=f"pack_columns_{binding}",
    )


def _push(factor: Factor, side: int, groups: tuple[int, int, int], item: int = 1) -> Push:
    """What both ways of packing push; offsets in numbers, or in bytes of `item` each."""
    return {
        "first": factor.first * item,
        "row": factor.row * item,
        "matrix": factor.matrix * item,
        "rows": factor.rows,
        "numbers": factor.numbers,
        "padded_rows": factor.padded_rows(side),
        "steps": factor.steps,
        "matrices": factor.matrices,
        "groups_x": groups[0],
    }
