"""Answers of the API: a table as JSON or CSV, and its description for OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from math import isfinite
from typing import Any

from pydantic import BaseModel, Field, create_model
from starlette.responses import Response

from vkbench.errors import UsageError
from vkbench_tables.table import Cell, Column, Table, ValueKind
from vkbench_tables.written.data import SCHEMA_VERSION, json_cell, write_csv, write_json

KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
_TYPES: Mapping[ValueKind, Any] = {
    ValueKind.TEXT: str | int | bool | list[Any] | dict[str, Any] | None,
    ValueKind.COUNT: int | None,
    ValueKind.ID: int | None,
    ValueKind.TIME: str | None,
}
_UNITS = {
    ValueKind.COUNT: "a count",
    ValueKind.ID: "a number that names it",
    ValueKind.SECONDS: "seconds",
    ValueKind.BYTES: "bytes",
    ValueKind.BYTE_RATE: "bytes per second",
    ValueKind.FLOP_RATE: "operations per second",
    ValueKind.OP_RATE: "operations per second",
    ValueKind.PERCENT: "a fraction: 0.5 is 50 %",
    ValueKind.TIME: "a moment, ISO 8601 in UTC",
}


def answer(table: Table, kind: str = "json") -> Response:
    """A table as the commands print it with --json or --csv."""
    if kind not in KINDS:
        raise UsageError(f"format is {' or '.join(KINDS)}")
    stream = StringIO()
    (write_csv if kind == "csv" else write_json)(table, stream)
    return Response(stream.getvalue(), media_type=KINDS[kind])


def answer_with(table: Table, **more: object) -> Response:
    """A table as JSON, with more fields beside its rows."""
    return Response(json.dumps(body(table, **more)), media_type="application/json")


def body(table: Table, **more: object) -> dict[str, Any]:
    """What an answer holds: a table's rows, and more fields beside them."""
    rows = [record(table.columns, row) for row in table.rows]
    made = {"schema_version": SCHEMA_VERSION, "rows": rows, **more}
    return {key: _replace_not_finite(value) for key, value in made.items()}


def record(columns: Sequence[Column], row: Mapping[str, Cell]) -> dict[str, Cell]:
    """One row by the names of its columns."""
    return {column.key: json_cell(column, row) for column in columns}


def records(columns: Sequence[Column], rows: Sequence[Mapping[str, Cell]]) -> list[dict[str, Cell]]:
    """Rows by the names of their columns."""
    return [record(columns, row) for row in rows]


def responses(name: str, columns: Sequence[Column]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of an answer with these columns."""
    return describe_answer(f"{name}Table", rows=row_model(name, columns))


def row_model(name: str, columns: Sequence[Column]) -> type[BaseModel]:
    """A row with these columns."""
    fields: dict[str, Any] = {
        column.key: (_TYPES.get(column.kind, float | None), Field(description=_meaning(column)))
        for column in columns
    }
    return create_model(name, **fields)


def describe_answer(
    name: str, *, rows: type[BaseModel], **more: tuple[Any, str]
) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of an answer: its rows, and `more` fields with their meanings."""
    version = (int, Field(description=f"{SCHEMA_VERSION}, until a name changes its meaning"))
    others: dict[str, Any] = {
        key: (kind, Field(description=meaning)) for key, (kind, meaning) in more.items()
    }
    row: Any = rows
    model: type[BaseModel] = create_model(
        name, schema_version=version, rows=(list[row], Field(description="in order")), **others
    )
    return {
        200: {"model": model, "content": {"text/csv": {"schema": {"type": "string"}}}},
        400: {"description": "an option has a value that it cannot have"},
        404: {"description": "an option names what does not exist"},
    }


def _meaning(column: Column) -> str:
    unit = _UNITS.get(column.kind)
    meaning = column.heading or column.key.replace("_", " ")
    return f"{meaning}; {unit}" if unit else meaning


def _replace_not_finite(value: Any) -> Any:
    """The value with null for infinite numbers and NaN, which JSON lacks."""
    match value:
        case float():
            return value if isfinite(value) else None
        case dict():
            return {key: _replace_not_finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_replace_not_finite(item) for item in value]
    return value
