"""The database as commands meet it: opened by what the settings say, asked for devices and runs.

SQLAlchemy loads when a database is opened, so that `--help` does without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.messages.urls import hide_password
from vkbench.settings import Settings
from vkbench_cli.show.telling import Elapsed, tell

if TYPE_CHECKING:
    from vkbench_db.ask.queries import DeviceRow, RunRow
    from vkbench_db.database import Database, Transaction

READING = "reading the database"
NOTHING_YET = "there are no results yet: `vkbench run` makes the first ones"


def open_database(settings: Settings) -> Database:
    """The database of these settings, which must be there and at this version's schema."""
    from vkbench_db.database import Database
    from vkbench_db.errors import SchemaMissing

    if is_unmade(settings):
        raise SchemaMissing(
            f"there is no database yet ({hide_password(settings.database_url())}): `vkbench run` "
            "creates it for this machine, `vkbench db upgrade` for a fleet"
        )
    database = Database.open(settings.database_url())
    _note_demonstration(database)
    return database


def _note_demonstration(database: Database) -> None:
    """Say on stderr if the results are made up."""
    from vkbench_db.demonstration import NOTE, is_demonstration

    with database.reading() as tx:
        if is_demonstration(tx):
            tell(NOTE)


@contextmanager
def reading(settings: Settings) -> Iterator[Transaction]:
    """A read-only transaction of the database; while it lasts, stderr says how long already.

    If no database exists yet it reads an empty one in memory; no file is created.
    """
    if is_unmade(settings):
        with _open_blank() as database, database.reading() as tx, _explain_unknown_names(settings):
            yield tx
    else:
        with open_database(settings) as database, Elapsed(READING), database.reading() as tx:
            yield tx


def is_unmade(settings: Settings) -> bool:
    """Whether no setting names a database and this machine's default one does not exist.

    A named database that does not exist is an error instead: the name may be mistyped.
    """
    from vkbench_db.database import parse_url

    if settings.database:
        return False
    return not os.path.lexists(str(parse_url(settings.database_url()).database))


def known_devices(settings: Settings) -> list[DeviceRow]:
    """Every device that the database has heard of."""
    from vkbench_db.ask.queries import devices

    with reading(settings) as tx:
        return devices(tx)


def _open_blank() -> Database:
    from vkbench_db.blank import blank_database

    return blank_database()


@contextmanager
def _explain_unknown_names(settings: Settings) -> Iterator[None]:
    """Add to errors about unknown names that the database has no results yet."""
    try:
        yield
    except UnknownName as error:
        raise UsageError(
            f"{error.unlisted}; {NOTHING_YET} "
            f"(there is no {hide_password(settings.database_url())})"
        ) from error


def refuse_imported(run: RunRow, what: str) -> None:
    """NothingToDo for an imported run: its jobs belong to the database that it came from."""
    if run.imported:
        raise NothingToDo(f"run {run.id} was imported: {what} on the host of its own database")
