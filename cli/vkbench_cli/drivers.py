"""Finds the drivers that a command's options name, and how devices are reached through them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkbench.drivers.declared import DeclaredDriver
    from vkbench.drivers.store import Driver, DriverStore
    from vkbench.settings import Settings
    from vkbench_db.database import Database
    from vkbench_worker.owner.routes import Route


def kept_drivers(settings: Settings) -> DriverStore:
    """The drivers that were added on this machine."""
    from vkbench.drivers.store import DriverStore

    return DriverStore(settings.driver_folder())


def driver_declared(word: str, settings: Settings) -> DeclaredDriver:
    """The declared driver of a name, or the one of a TOML file, which is kept from then on."""
    from vkbench.drivers.declaration import declared_drivers

    kept = declared_drivers(settings)
    return kept.add(Path(word)) if word.endswith(".toml") else kept.find(word)


def find_driver_routes(word: str, selectors: Sequence[str], settings: Settings) -> list[Route]:
    """How the chosen devices of this machine are reached through the driver of --driver."""
    from vkbench_worker.owner.routes import find_routes

    given = list(selectors) or [name for name in [settings.device] if name]
    return find_routes(kept_drivers(settings).find(word), given, settings)


def store_host_devices(database: Database, routes: Sequence[Route]) -> None:
    """Store the devices as the host's own driver shows them, which is what they are called."""
    from vkbench.messages.wire import Announcement
    from vkbench_db.work.store import register_device
    from vkbench_shaders.bundle import packaged_sha

    with database.transaction() as tx:
        for route in routes:
            host = route.host_device
            announced = Announcement(
                worker="", facts=host.facts, environment=host.environment, bundle=packaged_sha()
            )
            register_device(tx, announced, time.time())


def find_both_routes(
    old: Driver, new: Driver, selectors: Sequence[str], settings: Settings
) -> list[Route]:
    """How the chosen devices are reached through the newer of two drivers; both must show them."""
    from vkbench_worker.owner.routes import find_routes

    given = list(selectors) or [name for name in [settings.device] if name]
    routes = find_routes(new, given, settings)
    find_routes(old, [route.facts.key for route in routes], settings)
    return routes
