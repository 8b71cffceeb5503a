"""Rows: read as records, inserted where they are missing, locked in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    select,
)

from vkbench_db import schema

R = TypeVar("R")


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
    if not rows:
        return
    tx.execute(_skipping_insert(tx, table), list(rows))


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
