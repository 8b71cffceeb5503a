"""Factors of products, and how they are packed to 16 bits in the order that a product reads."""

from __future__ import annotations

from dataclasses import dataclass

from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Launch, grid
from vkbench_shaders.kernels.matrices.cooperative.coop_tiles import STEP

EIGHT = 8  # numbers in 16 bytes
_THREADS = 128
_PACKED = 64  # numbers that a thread packs of columns: 4 rows by 16
_ROWS = 16  # of contiguous rows, that a workgroup packs
_STEPS = 8  # along k, at a time
_MOST_EACH = 8  # times that many steps: a workgroup reads its format's table once
_ENOUGH_GROUPS = 2048  # to keep a GPU busy
_WIDE = 16  # bytes of the widest load


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

    @property
    def quantised(self) -> bool:
        return format_named(self.fmt).quantised

    @property
    def steps(self) -> int:
        """Steps along k."""
        return -(-self.numbers // STEP)

    def is_direct(self, element: str, side: int) -> bool:
        """Whether a product by tiles of so many rows reads it where it lies."""
        places = (self.first, self.row, self.matrix)
        whole = self.numbers % STEP == 0 and self.rows % side == 0
        begins = all(place % EIGHT == 0 for place in places)
        return self.fmt == element and self.k == 1 and whole and begins

    def padded(self, side: int) -> int:
        """Rows of a panel."""
        return -(-self.rows // side) * side

    def panel_bytes(self, side: int) -> int:
        """Bytes of all its panels."""
        return 2 * self.matrices * self.steps * STEP * self.padded(side)


def pack(factor: Factor, binding: str, side: int) -> Launch:
    return (
        _pack_rows(factor, binding, side) if factor.along else _pack_columns(factor, binding, side)
    )


def _pack_rows(factor: Factor, binding: str, side: int) -> Launch:
    padded = factor.padded(side)
    blocks = -(-padded // _ROWS)
    eights = -(-factor.steps // _STEPS)
    each = min(_MOST_EACH, max(1, factor.matrices * blocks * eights // _ENOUGH_GROUPS))
    parts = -(-eights // each)
    groups = grid(factor.matrices * blocks * parts)
    item = 1 if factor.quantised else format_named(factor.fmt).bytes
    wide = factor.quantised or (
        factor.numbers % STEP == 0
        and all(place * item % _WIDE == 0 for place in (factor.first, factor.row, factor.matrix))
    )
    return Launch(
        groups=groups,
        push={
            "first": factor.first * item,
            "row": factor.row * item,
            "matrix": factor.matrix * item,
            "rows": factor.rows,
            "numbers": factor.numbers,
            "padded_rows": padded,
            "steps": factor.steps,
            "part": each * _STEPS,
            "parts": parts,
            "blocks": blocks,
            "matrices": factor.matrices,
            "groups_x": groups[0],
        },
        constants={"WIDE": wide},
        entry=f"pack_rows_{binding}",
    )


def _pack_columns(factor: Factor, binding: str, side: int) -> Launch:
    padded = factor.padded(side)
    numbers = factor.matrices * padded * factor.steps * STEP
    groups = grid(-(-numbers // (_PACKED * _THREADS)))
    return Launch(
        groups=groups,
        push={
            "first": factor.first,
            "row": factor.row,
            "k": factor.k,
            "matrix": factor.matrix,
            "rows": factor.rows,
            "numbers": factor.numbers,
            "padded_rows": padded,
            "steps": factor.steps,
            "matrices": factor.matrices,
            "groups_x": groups[0],
        },
        constants={"THREADS": _THREADS, "WIDE": factor.wide},
        entry=f"pack_columns_{binding}",
    )
