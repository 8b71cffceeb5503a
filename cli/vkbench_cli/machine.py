"""This machine, as commands use it: its devices, and a database that they alone work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vkbench.errors import VkbenchError
from vkbench_cli.show.telling import tell

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.settings import Settings
    from vkbench_db.database import Database


def devices_if_any(otherwise: str) -> list[DeviceFacts]:
    """The devices of this machine; without a driver none, and stderr says what happens instead."""
    from vkbench_local.machine import all_devices

    try:
        return all_devices()
    except (VkbenchError, ModuleNotFoundError) as error:
        tell(f"no device here, so {otherwise}: {error}")
        return []


@contextmanager
def open_alone(settings: Settings) -> Iterator[Database]:
    """The database, made if need be, while no other process of this machine runs its jobs."""
    from vkbench_db.database import Database
    from vkbench_local.executor import sole_executor

    url = settings.database_url()
    with sole_executor(url), Database.open(url, create=True) as database:
        yield database
