"""Rows in bulk: inserted where they are missing, locked in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from vkbench_db import models


@dataclass(frozen=True)
class LockedJob:
    """What deciding about a job takes."""

    id: int
    state: str
    token: int
    tries: int
    dispatches: int
    case_id: int


def insert_missing(
    tx: Connection, model: type[models.Model], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows; those whose key is taken stay as they are."""
    if not rows:
        return
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    tx.execute(dialect.insert(model).on_conflict_do_nothing(), list(rows))


def insert_new(tx: Connection, model: type[models.Model], row: Mapping[str, Any]) -> bool:
    """Insert a row, and say whether it is this one that has its key; waits for whoever has it."""
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    first = next(iter(model.__table__.primary_key))
    insert = dialect.insert(model).values(**row).on_conflict_do_nothing().returning(first)
    return tx.execute(insert).first() is not None


def lock_jobs(tx: Connection, ids: Iterable[int]) -> list[LockedJob]:
    """The jobs of these ids, which stay as they are until the transaction ends.

    Everybody locks in the order of ids, so no two transactions can wait for each other.
    """
    job = models.Job
    rows = tx.execute(
        select(job.id, job.state, job.token, job.tries, job.dispatches, job.case_id)
        .where(job.id.in_(sorted(set(ids))))
        .order_by(job.id)
        .with_for_update(key_share=True)
    )
    return [LockedJob(*row) for row in rows]
