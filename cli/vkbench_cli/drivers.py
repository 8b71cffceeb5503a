"""Finds the drivers that a command's options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkbench.drivers.store import DriverStore
    from vkbench.settings import Settings


def kept_drivers(settings: Settings) -> DriverStore:
    """The drivers that were added on this machine."""
    from vkbench.drivers.store import DriverStore

    return DriverStore(settings.driver_folder())
