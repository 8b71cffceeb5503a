"""The database as commands meet it: opened by what the settings say, asked for devices and runs."""

from __future__ import annotations

import os
from getpass import getuser
from typing import TYPE_CHECKING

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.queries import DeviceRow, devices

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vkbench_shaders.bundle import Bundle


def opened(settings: Settings) -> Database:
    """The database of these settings, which must be there and at this version's schema."""
    return Database.open(settings.database_url())


def known_devices(settings: Settings) -> list[DeviceRow]:
    """Every device that the database has heard of."""
    with opened(settings) as database, database.reading() as tx:
        return devices(tx)


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
