"""A blank database in memory: readers ask it where no database has been made yet.

It has every table and view and no rows, so that each question has its usual answer. Nothing is
written to disk.
"""

from __future__ import annotations

from sqlalchemy import Connection, create_engine, select
from sqlalchemy.pool import StaticPool

from vkbench_db import schema
from vkbench_db.database import Database


def blank_database() -> Database:
    """A database of this version's schema without a row."""
    engine = create_engine("sqlite://", poolclass=StaticPool)  # one connection: it is the database
    schema.TABLES.create_all(engine)
    schema.VIEWS.create_all(engine)  # as tables: without rows, a view and a table answer alike
    return Database(engine)


def is_blank(tx: Connection) -> bool:
    """Whether nothing was recorded: without a run there are no jobs, results or series."""
    return tx.execute(select(schema.run.c.id).limit(1)).first() is None
