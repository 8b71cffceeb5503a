"""Rows: read as records, inserted where they are missing, locked in one order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from sqlalchemy import (
    JSON,
    ColumnClause,
    ColumnElement,
    Connection,
    Float,
    FromClause,
    Insert,
    LargeBinary,
    Select,
    Table,
    Text,
    cast,
    column,
    func,
    insert,
    literal,
    select,
)

from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.schema.metadata import Moment

R = TypeVar("R")

MANY: Final = 8  # rows; PostgreSQL is given so many or more as one document


@dataclass(frozen=True, kw_only=True)
class LockedJob:
    """What the store needs to know of a job to decide about it."""

    id: int
    state: str
    token: int
    tries: int
    dispatches: int
    case_id: int
    metric: str  # of a paired job


def fetch(tx: Connection, query: Select[*tuple[Any, ...]], record: type[R]) -> list[R]:
    """The rows of a query as records; TypeError unless its columns are the record's fields."""
    rows = tx.execute(query)
    names = tuple(rows.keys())
    return [record(**dict(zip(names, row, strict=True))) for row in rows]


def select_record(
    record: type[Any], *tables: FromClause, **named: ColumnElement[Any]
) -> Select[*tuple[Any, ...]]:
    """Select a column for each field of a record: one named here, or the first table's that has it.

    Names of cases, devices and hosts are those of schema.NAMES. A field that has a default may be
    in none of these.
    """
    columns: list[ColumnElement[Any]] = []
    for field in fields(record):
        name = field.name
        holders = (table.c for table in tables if name in table.c)
        place = named if name in named else next(holders, schema.NAMES)
        if name in place or field.default is MISSING:
            column = place[name]
            is_so_named = isinstance(column, ColumnClause) and column.name == name
            columns.append(column if is_so_named else column.label(name))
    return select(*columns)


def fetch_first(tx: Connection, query: Select[*tuple[Any, ...]], record: type[R]) -> R | None:
    """The first row of a query as a record; None if there is no row."""
    records = fetch(tx, query.limit(1), record)
    return records[0] if records else None


def record_of(values: Mapping[str, Any], record: type[R]) -> R:
    """A record of these values; fields of the record that are not among them keep their default."""
    known = fields(record)  # type: ignore[arg-type]  # every record is a dataclass
    return record(**{field.name: values[field.name] for field in known if field.name in values})


def insert_missing(tx: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; leave rows that already exist under the same key as they are."""
    _insert(tx, _skipping_insert(tx, table), rows)


def insert_rows(tx: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; IntegrityError if one exists under the same key."""
    _insert(tx, insert(table), rows)


def insert_new(tx: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row; False if another transaction, whose end it waits for, inserted its key."""
    first = next(iter(table.primary_key))
    insert = _skipping_insert(tx, table).values(**row).returning(first)
    return tx.execute(insert).first() is not None


def lock_jobs(tx: Connection, ids: Iterable[int]) -> list[LockedJob]:
    """Lock the jobs of these ids until the transaction ends.

    Every caller locks in the order of ids, so no two transactions can wait for each other.
    """
    job = schema.job.c
    query = (
        select_record(LockedJob, schema.job)
        .where(job.id.in_(sorted(set(ids))))
        .order_by(job.id)
        .with_for_update(key_share=True)
    )
    return fetch(tx, query, LockedJob)


def _skipping_insert(tx: Connection, table: Table) -> Insert:
    """An insert that skips rows whose key exists; it loads the dialect of this database alone."""
    if tx.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()


def _insert(tx: Connection, statement: Insert, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have the same columns.

    psycopg has PostgreSQL run a statement for each row of a list. A statement with the values of
    all rows takes SQLAlchemy and psycopg longer to write than it saves. So PostgreSQL gets many
    rows as one JSON document: 100,000 jobs take less than half of both sides' time.
    """
    if not rows:
        return
    if tx.dialect.name != "postgresql" or len(rows) < MANY:
        tx.execute(statement, list(rows))
        return
    columns = [statement.table.c[name] for name in rows[0]]
    for batch in batches(rows):
        document = cast(literal(_write_document(columns, batch), Text), JSON)
        source = func.json_to_recordset(document).table_valued(
            *(column(item.name, item.type) for item in columns)
        )
        names = [item.name for item in columns]
        tx.execute(statement.from_select(names, select(source.render_derived(with_types=True))))


def _write_document(
    columns: Sequence[ColumnElement[Any]], rows: Sequence[Mapping[str, Any]]
) -> str:
    """Rows as JSON from which PostgreSQL's json_to_recordset reads the same values."""
    import msgspec  # takes a while to load, and who reads does not need it

    writers = {item.name: writer for item in columns if (writer := _find_writer(item))}
    written = [
        {item.name: row[item.name] for item in columns}
        | {name: write(row[name]) for name, write in writers.items()}
        for row in rows
    ]
    return msgspec.json.encode(written, enc_hook=float).decode()  # numpy's floats are no float


def _find_writer(of: ColumnElement[Any]) -> Callable[[Any], Any] | None:
    """What turns a column's value into one that JSON has; None where every value is one."""
    if isinstance(of.type, Float):
        return _write_number
    if isinstance(of.type, LargeBinary):
        return _write_bytes
    if isinstance(of.type, Moment):
        return _write_moment
    return None


def _write_number(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else str(float(number))


def _write_moment(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def _write_bytes(data: bytes | None) -> str | None:
    return None if data is None else rf"\x{data.hex()}"
