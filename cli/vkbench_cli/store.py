"""The database as commands meet it: opened by what the settings say, asked for devices and runs."""

from __future__ import annotations

import os
from getpass import getuser

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.queries import DeviceRow, devices


def opened(settings: Settings) -> Database:
    """The database of these settings, which must be there and at this version's schema."""
    return Database.open(settings.database_url())


def known_devices(settings: Settings) -> list[DeviceRow]:
    """Every device that the database has heard of."""
    with opened(settings) as database, database.reading() as tx:
        return devices(tx)


def user_name() -> str:
    """Who is at the keyboard, as the system knows them."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
