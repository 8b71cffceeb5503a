"""The database as commands meet it: opened by what the settings say, asked for devices and runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from typing import TYPE_CHECKING

from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.settings import Settings
from vkbench_db.database import Database, parse_url
from vkbench_db.errors import SchemaMissing
from vkbench_db.queries import DeviceRow, RunRow, devices

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vkbench_shaders.bundle import Bundle

NOTHING_YET = "nothing is recorded yet: `vkbench run` makes the first results"


def opened(settings: Settings) -> Database:
    """The database of these settings, which must be there and at this version's schema."""
    if is_unmade(settings):
        raise SchemaMissing(
            f"there is no database yet ({settings.database_url()}): `vkbench run` makes it on a "
            "machine of its own, `vkbench db upgrade` for a fleet"
        )
    return Database.open(settings.database_url())


@contextmanager
def reading(settings: Settings) -> Iterator[Connection]:
    """One moment of the database, for commands that only read.

    On a machine where nothing was recorded yet that is a blank one, and no file is made.
    """
    if is_unmade(settings):
        with _blank() as database, database.reading() as tx, _explained(settings):
            yield tx
    else:
        with opened(settings) as database, database.reading() as tx:
            yield tx


def is_unmade(settings: Settings) -> bool:
    """Whether no setting names a database and this machine's own was never made.

    A named database that does not exist is an error instead: the name may be mistyped.
    """
    if settings.database:
        return False
    return not os.path.lexists(str(parse_url(settings.database_url()).database))


def known_devices(settings: Settings) -> list[DeviceRow]:
    """Every device that the database has heard of."""
    with reading(settings) as tx:
        return devices(tx)


def _blank() -> Database:
    from vkbench_db.blank import blank

    return blank()


@contextmanager
def _explained(settings: Settings) -> Iterator[None]:
    """Adds to the error of an unknown name that nothing is recorded yet."""
    try:
        yield
    except UnknownName as error:
        raise UsageError(
            f"{error}; {NOTHING_YET} (there is no {settings.database_url()})"
        ) from error


def refuse_imported(run: RunRow, what: str) -> None:
    """NothingToDo for a run of another database, whose jobs are not ours to touch."""
    if run.imported:
        raise NothingToDo(f"run {run.id} was imported: {what} where its database is")


def bundle_named(tx: Connection, asked: str) -> Bundle | None:
    """A bundle of this machine or of the database, by the beginning of its hash; None for ""."""
    from vkbench_cli.commands.bundle import kept
    from vkbench_scheduler.bundles import kept_as
    from vkbench_shaders.bundle import UnknownBundle

    if not asked:
        return None
    try:
        return kept().get(asked)
    except UnknownBundle:
        found = kept_as(tx, asked)
        if found is None:
            raise
        return found


def user_name() -> str:
    """Who is at the keyboard, as the system knows them."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
