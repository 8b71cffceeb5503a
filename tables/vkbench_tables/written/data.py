"""Tables for programs, JSON and CSV: nothing is scaled or rounded."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import TextIO

from vkbench_tables.table import Cell, Column, Table, ValueKind

SCHEMA_VERSION = 1


def write_json(table: Table, stream: TextIO) -> None:
    """One object: schema_version, rows, a row a line, and the summary where there is one."""
    columns = _columns(table)
    lines = (json.dumps({c.key: json_cell(c, row) for c in columns}) for row in table.rows)
    rows = ",\n  ".join(lines)
    summary = "" if table.summary is None else f',\n"summary": {json.dumps(table.summary)}'
    stream.write(f'{{"schema_version": {SCHEMA_VERSION}, "rows": [')
    stream.write(f"\n  {rows}\n]{summary}}}\n" if rows else f"]{summary}}}\n")


def write_csv(table: Table, stream: TextIO) -> None:
    """A heading line of keys and a line for each row; nothing is scaled or rounded."""
    writer = csv.writer(stream, lineterminator="\n")
    columns = _columns(table)
    writer.writerow(column.key for column in columns)
    for row in table.rows:
        writer.writerow(_flat(json_cell(column, row)) for column in columns)


def json_cell(column: Column, row: Mapping[str, Cell]) -> Cell:
    """A cell as JSON takes it: a moment is a string, and there is no infinity."""
    value = row.get(column.key)
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no word for it
    if isinstance(value, int | float) and column.kind is ValueKind.TIME:
        return datetime.fromtimestamp(value, UTC).isoformat()
    return value


def _columns(table: Table) -> list[Column]:
    return [column for column in table.columns if not column.for_people]


def _flat(value: Cell) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
