"""The answer to a user's SQL as a table, whose columns the statement decides."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from vkbench_tables.table import Cell, Column, Table, ValueKind


def answer(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Rows of a database by the names of their columns."""
    keys = _distinct(names)
    cells = [dict(zip(keys, map(_cell, row), strict=True)) for row in rows]
    return Table(
        columns=[_column(key, cells) for key in keys],
        rows=cells,
        nothing="the query gives no row",
    )


def _column(key: str, rows: Sequence[dict[str, Cell]]) -> Column:
    numbers = [row[key] for row in rows if row[key] is not None]
    plain = numbers and all(type(value) in (int, float) for value in numbers)
    return Column(key=key, heading=key, kind=ValueKind.VALUE if plain else ValueKind.TEXT)


def _distinct(names: Sequence[str]) -> list[str]:
    """Column names, with a number after one that was there before."""
    keys: list[str] = []
    for name in names:
        same = sum(key == name or key.startswith(f"{name}_") for key in keys)
        keys.append(f"{name}_{same + 1}" if name in keys else name)
    return keys


def _cell(value: object) -> Cell:
    """What JSON has no word for, as text."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, list):
        return [_inner(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _inner(item) for key, item in value.items()}
    if value is None or isinstance(value, (str, int, float)):
        return value
    return str(value)


def _inner(value: object) -> Cell:
    """A cell inside a list, where JSON has no infinity either."""
    return None if isinstance(value, float) and not isfinite(value) else _cell(value)
