"""What the drivers of environments are called: by versions, by names, and by names of users."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.device import DRIVER_NAME, DRIVER_SHA
from vkbench.errors import UnknownName
from vkbench.programs.build import SHA_SHOWN
from vkbench.words import names
from vkbench_db import schema


@dataclass(frozen=True, kw_only=True)
class DriverNames:
    """What the driver of an environment is called."""

    version: str
    driver: str  # its own name: llvmpipe, NVIDIA
    sha: str  # first digits of the hash of its files, if a user added it
    name: str  # what that user calls it

    @property
    def versioned(self) -> str:
        """Its own name and its version, which every driver has."""
        return f"{self.driver} {self.version}"

    @property
    def called(self) -> str:
        """What people call it: as its user does, or by its version."""
        return self.name or self.versioned

    @property
    def words(self) -> tuple[str, ...]:
        """All that people may type to mean it."""
        return (*filter(None, (self.version, self.driver, self.sha, self.name)), self.versioned)


def find_driver(tx: Connection, name: str) -> dict[str, str]:
    """The environments with a driver of this name, version or hash, as `find_environments` finds.

    UnknownName if there is none.
    """
    if found := find_environments(tx, name):
        return found
    known = dict.fromkeys(word for driver in name_drivers(tx).values() for word in driver.words)
    raise UnknownName("driver", name, names.nearest(name, list(known)))


def find_environments(tx: Connection, name: str) -> dict[str, str]:
    """The environments with a driver of this name or version: what people call it, by hashes."""
    lowered = name.strip().casefold()
    return {
        environment: driver.versioned
        for environment, driver in name_drivers(tx).items()
        if lowered in map(str.casefold, driver.words)
    }


def find_files(tx: Connection, name: str) -> set[str]:
    """The first digits of the hashes of the added drivers that a name or version means."""
    known = schema.environment.c
    query = select(known.facts).where(known.hash.in_(list(find_environments(tx, name))))
    extras = [facts.get("extra") or {} for facts in tx.execute(query).scalars()]
    return {extra[DRIVER_SHA] for extra in extras if extra.get(DRIVER_SHA)}


def name_drivers(tx: Connection) -> dict[str, DriverNames]:
    """The names of the driver of every environment, by the environments' hashes."""
    known = schema.environment.c
    rows = tx.execute(
        select(known.hash, known.driver, known.driver_version, known.facts).order_by(known.hash)
    )
    names_by_hash: dict[str, DriverNames] = {}
    for row in rows:
        extra = row.facts.get("extra") or {}
        names_by_hash[row.hash] = DriverNames(
            version=row.driver_version,
            driver=row.driver,
            sha=extra.get(DRIVER_SHA) or "",
            name=extra.get(DRIVER_NAME) or "",
        )
    return names_by_hash


def names_of_files(tx: Connection) -> dict[str, str]:
    """What drivers are called whose files are known, by the first digits of the files' hashes."""
    extras = [facts.get("extra") or {} for facts in tx.execute(_FACTS).scalars()]
    ran = {extra[DRIVER_SHA]: extra.get(DRIVER_NAME, "") for extra in extras if DRIVER_SHA in extra}
    device = schema.device.c
    there: dict[str, str] = {}
    for row in tx.execute(select(device.drivers, device.own_drivers)):
        own = (row.own_drivers or {}).get("copies", ())
        there |= {known["sha"][:SHA_SHOWN]: known["name"] for known in (*(row.drivers or ()), *own)}
    return ran | there


_FACTS = select(schema.environment.c.facts)
