"""Points drawn as text: a character of braille is a grid of two by four dots."""

from __future__ import annotations

from collections.abc import Sequence

COLUMNS, ROWS = 2, 4  # dots of a character
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a dot, by row and column
_BLANK = 0x2800

XY = tuple[float, float]


def scatter(points: Sequence[XY], *, width: int, height: int, low: XY, high: XY) -> list[str]:
    """Lines of characters, the upper one first; `low` and `high` are opposite corners."""
    cells = [[0] * width for _ in range(height)]
    for x, y in points:
        column = place(x, low[0], high[0], width * COLUMNS)
        row = height * ROWS - 1 - place(y, low[1], high[1], height * ROWS)
        bit = _BITS[row % ROWS][column % COLUMNS]
        cells[row // ROWS][column // COLUMNS] |= bit
    return ["".join(chr(_BLANK + cell) for cell in line).replace("⠀", " ") for line in cells]


def place(value: float, low: float, high: float, count: int) -> int:
    """Which of `count` equal steps from low to high holds a value; the middle one of no range."""
    if high <= low:
        return count // 2
    return min(count - 1, max(0, int((value - low) / (high - low) * count)))
