"""Cells as people read them: one scale for a whole column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from vkbench.words import markdown, units
from vkbench.words.names import join_items
from vkbench.words.visible import visible
from vkbench_tables.table import EMPTY, Cell, Column, Table, ValueKind

_LEAST_PROBABILITY: Final = 0.001  # that three digits show

Rows = Sequence[Mapping[str, Cell]]
Values = Sequence[float | None]
Scaler = Callable[[Values, Values], tuple[str, list[str]]]  # the second choose the unit


def is_shown(column: Column, rows: Rows) -> bool:
    """Whether text shows a column: it is not hidden, and some row has a value."""
    if column.hidden:
        return False
    return any(row.get(column.key) not in EMPTY for row in rows)


def is_shared(column: Column, rows: Rows) -> bool:
    """Whether several rows have the same value there."""
    return len(rows) > 1 and len({text(column, row) for row in rows}) == 1


def is_number(column: Column) -> bool:
    """Whether a column holds numbers, which align at their points."""
    return column.kind in _SCALERS


def column_text(column: Column, rows: Rows, like: Rows = ()) -> tuple[str, list[str]]:
    """A column's heading, with its unit, and its cells; the rows of `like` may choose the unit."""
    if not is_number(column):
        return visible(column.heading), [text(column, row) for row in rows]
    values, deciding = ([_number(row.get(column.key)) for row in chosen] for chosen in (rows, like))
    unit, cells = _SCALERS[column.kind](values, deciding)
    return f"{visible(column.heading)} {unit}".strip(), _align_points(cells)


def markdown_table(table: Table, *, most: int = markdown.MOST_ROWS) -> str:
    """The table as people see it, in Markdown."""
    shown = [column for column in table.columns if is_shown(column, table.rows)]
    texts = [column_text(column, table.rows) for column in shown]
    cells = [[cell.strip() for cell in (heading, *column)] for heading, column in texts]
    right = [index for index, column in enumerate(shown) if is_number(column)]
    lines = [[markdown.escape_text(cell) for cell in line] for line in zip(*cells, strict=True)]
    return markdown.table(lines[0], lines[1:], right=right, most=most) if lines else ""


def _align_points(cells: Sequence[str]) -> list[str]:
    """Cells with their decimal points under each other."""
    after = max((len(cell.partition(".")[2]) + ("." in cell) for cell in cells), default=0)
    return [cell + " " * (after - len(cell.partition(".")[2]) - ("." in cell)) for cell in cells]


def _number(value: Cell) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _show_unscaled(show: Callable[[float], str]) -> Scaler:
    return lambda values, _: ("", ["" if value is None else show(value) for value in values])


def _probability(value: float) -> str:
    """A probability with three digits; a smaller one as "below" the smallest shown."""
    return f"{value:.3f}" if value >= _LEAST_PROBABILITY else f"<{_LEAST_PROBABILITY}"


_SCALERS: Mapping[ValueKind, Scaler] = {
    ValueKind.COUNT: _show_unscaled(lambda value: f"{value:,.0f}"),
    ValueKind.ID: _show_unscaled(lambda value: f"{value:.0f}"),
    ValueKind.NUMBER: _show_unscaled(lambda value: units.significant(value, 3)),
    ValueKind.RATIO: _show_unscaled(units.ratio),
    ValueKind.VALUE: _show_unscaled(lambda value: f"{value:.10g}"),
    ValueKind.SECONDS: units.seconds_column,
    ValueKind.BYTES: lambda values, like: units.rate_column(values, "B", like),
    ValueKind.BYTE_RATE: lambda values, like: units.rate_column(values, "B/s", like),
    ValueKind.FLOP_RATE: lambda values, like: units.rate_column(values, "FLOP/s", like),
    ValueKind.OP_RATE: lambda values, like: units.rate_column(values, "OP/s", like),
    ValueKind.PERCENT: _show_unscaled(lambda value: f"{value * 100:.1f}%"),
    ValueKind.PROBABILITY: _show_unscaled(_probability),
}


def text(column: Column, row: Mapping[str, Cell]) -> str:
    """One cell that is no number."""
    value = row.get(column.key)
    if isinstance(value, int | float) and column.kind is ValueKind.TIME:
        return datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, int | float) and column.kind is ValueKind.AGE:
        return units.span(value)
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return visible(join_items([str(_name(item)) for item in value]))
    return visible(" ".join(str(value).split()))


def _name(item: Cell) -> Cell:
    return item["name"] if isinstance(item, Mapping) else item
