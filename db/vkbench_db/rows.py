"""Rows in bulk: inserted where they are missing, locked in one order, taken in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from vkbench_db import models

T = TypeVar("T")


@dataclass(frozen=True)
class LockedJob:
    """What deciding about a job takes."""

    id: int
    state: str
    token: int
    tries: int
    dispatches: int
    case_id: int


BATCH = 2000  # rows of a statement; well under SQLite's 32,766 parameters with one key a row


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


def insert_missing(
    tx: Connection, model: type[models.Model], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows; those whose key is taken stay as they are."""
    if not rows:
        return
    dialect = postgresql if tx.dialect.name == "postgresql" else sqlite
    tx.execute(dialect.insert(model).on_conflict_do_nothing(), list(rows))


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
