"""Whether a database is a demonstration: its results are made up, and all faces say so."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.rows import insert_missing

MARK = "(demonstration)"  # a host of this name, without devices; no system allows such a name
NOTE = "a demonstration: these results are made up from recorded ones of an H200"
TELLER = "demonstration"  # who noted what was planted
PLANTED = "planted for the demonstration"  # how such a note begins


def is_demonstration(tx: Connection) -> bool:
    """Whether `vkbench demo` filled this database."""
    host = schema.host.c
    return tx.execute(select(host.id).where(host.name == MARK)).first() is not None


def is_file_of_one(path: Path) -> bool:
    """Whether a file is a demonstration's database, of whatever version; nothing is written."""
    uri = f"{path.absolute().as_uri()}?mode=rw"  # read-only connections leave a -wal file
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            rows = connection.execute("SELECT 1 FROM host WHERE name = ?", (MARK,))
            return rows.fetchone() is not None
    except sqlite3.Error:
        return False


def mark(tx: Connection) -> None:
    """Say that this database is a demonstration, for good."""
    insert_missing(tx, schema.host, [{"name": MARK}])


def read_stories(tx: Connection) -> Mapping[int, str]:
    """What was planted for each regression of a demonstration, in words."""
    event = schema.regression_event.c
    rows = tx.execute(
        select(event.regression_id, event.note).where(
            event.user_name == TELLER, event.note.startswith(f"{PLANTED}: ")
        )
    )
    return dict(rows.all())
