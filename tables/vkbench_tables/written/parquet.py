"""Tables as Parquet, a file of columns that DuckDB, pandas and Polars read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

import pyarrow
import pyarrow.parquet

from vkbench_tables.table import Cell, Column, Table, ValueKind
from vkbench_tables.written.data import SCHEMA_VERSION

GROUP: Final = 50_000  # rows that are turned into columns at once
_WHOLE: Final = (ValueKind.COUNT, ValueKind.ID)


def write_parquet(table: Table, file: IO[bytes]) -> None:
    """Write what JSON has of a table, by the same names; nothing is scaled or rounded."""
    columns = [column for column in table.columns if not column.for_people]
    schema = pyarrow.schema(
        [pyarrow.field(column.key, _find_type(column)) for column in columns],
        metadata={"vkbench_schema_version": str(SCHEMA_VERSION)},
    )
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for first in range(0, len(table.rows), GROUP):
            rows = table.rows[first : first + GROUP]
            arrays = [_make_array(column, rows) for column in columns]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _find_type(column: Column) -> Any:
    if column.kind is ValueKind.TIME:
        return pyarrow.timestamp("us", tz="UTC")
    if column.kind is ValueKind.TEXT:
        return pyarrow.string()
    return pyarrow.int64() if column.kind in _WHOLE else pyarrow.float64()


def _make_array(column: Column, rows: Any) -> Any:
    turn = _CELLS.get(column.kind, _take_number)
    return pyarrow.array([turn(row.get(column.key)) for row in rows], type=_find_type(column))


def _write_text(value: Cell) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _round_whole(value: Cell) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _take_number(value: Cell) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _take_moment(value: Cell) -> int | None:
    """Microseconds since 1970, as the column has them."""
    return round(value * 1e6) if isinstance(value, int | float) else None


_CELLS: Final[Mapping[ValueKind, Callable[[Cell], Cell]]] = {
    ValueKind.TEXT: _write_text,
    ValueKind.TIME: _take_moment,
    **dict.fromkeys(_WHOLE, _round_whole),
}
