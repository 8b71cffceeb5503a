"""Finds the drivers that jobs of the fleet run through, and sends copies to where hosts get them.

A copy of this machine goes wherever the job goes, as a build does. What was added in place stays on
its host: such a driver is named as that host's user called it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vkbench.device import EVERY_DRIVER
from vkbench.errors import UsageError
from vkbench.programs.build import SHA_SHOWN
from vkbench.programs.program import declare_driver
from vkbench.settings import settings
from vkbench_cli.builds import send_signed
from vkbench_cli.drivers import kept_drivers
from vkbench_cli.show.telling import tell

if TYPE_CHECKING:
    from vkbench.device import HostDriver
    from vkbench.drivers.store import Driver
    from vkbench_db.database import Database
    from vkbench_scheduler.planning.selection import Selection

NO_HISTORY: Final = "timings through several drivers are no history: they join no track"


@dataclass(frozen=True, kw_only=True)
class FleetDrivers:
    """Drivers, and which devices are reached through each of them."""

    devices: Mapping[str, Sequence[str]]  # keys, by the driver's hash
    names: Mapping[str, str]  # by hash
    copy: Driver | None = None  # of this machine, which hosts get

    @property
    def keys(self) -> tuple[str, ...]:
        """All devices that are reached through any of them, in their order."""
        return tuple(dict.fromkeys(key for keys in self.devices.values() for key in keys))


def find_fleet_drivers(database: Database, word: str, keys: Sequence[str]) -> FleetDrivers:
    """Find the drivers that a word means on devices of the fleet; name the devices without one.

    The word is a name, the beginning of a hash, or `*` for every driver.
    """
    from vkbench_scheduler.drivers import find_able

    with database.reading() as tx:
        able = find_able(tx, keys, word)
    drivers = _find_copy(word, list(able)) or _find_announced(word, able)
    if left_out := [key for key in keys if key not in drivers.keys]:
        what = "a driver that was added" if word == EVERY_DRIVER else f"the driver {word}"
        tell(f"left out, since their hosts do not have {what}: {', '.join(left_out)}")
    return drivers


def find_fleet_arms(
    database: Database, words: Sequence[str], keys: Sequence[str]
) -> dict[str, str]:
    """The names of the drivers that words mean on all of these devices, by their hashes.

    Copies are sent to where hosts get them. UsageError where hosts call several drivers so.
    """
    meant = [find_fleet_drivers(database, word, keys) for word in words]
    for word, drivers in zip(words, meant, strict=True):
        if len(drivers.devices) > 1 or word == EVERY_DRIVER:
            some = " and ".join(sha[:SHA_SHOWN] for sha in list(drivers.devices)[:2])
            raise UsageError(f"several drivers are called '{word}' there: give a hash, {some}")
    for drivers in meant:
        give_copy(drivers)
    return {sha: name for drivers in meant for sha, name in drivers.names.items()}


def give_copy(drivers: FleetDrivers) -> None:
    """Sign a driver that was copied on this machine, and send what the lab's place lacks of it."""
    if driver := drivers.copy:
        store = kept_drivers(settings()).builds
        send_signed(driver.build, declare_driver(driver.name), store, settings())


def give_own_copy(word: str) -> str:
    """Send a driver that was copied on this machine, and return its hash; else the word itself."""
    if drivers := word and _find_copy(word, ()):
        give_copy(drivers)
        return next(iter(drivers.devices))
    return word


def choose_through(selection: Selection, drivers: FleetDrivers) -> Selection:
    """The selection for the devices that drivers reach; of several, timings join no history."""
    from vkbench_scheduler import drivers as fleet

    chosen = fleet.choose_through(selection, drivers.devices)
    if selection.track and not chosen.track:
        tell(NO_HISTORY)
    return chosen


def _find_copy(word: str, keys: Sequence[str]) -> FleetDrivers | None:
    """A driver that was copied on this machine; None where the word means none."""
    try:
        driver = kept_drivers(settings()).find(word)
    except UsageError:
        return None
    if driver.is_in_place:
        return None
    return FleetDrivers(devices={driver.sha: keys}, names={driver.sha: driver.name}, copy=driver)


def _find_announced(word: str, able: Mapping[str, Sequence[HostDriver]]) -> FleetDrivers:
    """What hosts have: each device by its own host's driver of that name or hash."""
    from vkbench_scheduler.drivers import pick_announced

    found = pick_announced(word, able)
    return FleetDrivers(
        devices={driver.sha: keys for driver, keys in found.items()},
        names={driver.sha: driver.name for driver in found},
    )
