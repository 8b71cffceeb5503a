"""What the drivers of environments are called: by versions, by names, and by names of users."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select

from vkbench.device import DRIVER_NAME, DRIVER_SHA
from vkbench.errors import UnknownName
from vkbench.programs.build import SHA_SHOWN
from vkbench.words import names
from vkbench_db import schema


def find_driver(tx: Connection, name: str) -> dict[str, str]:
    """The environments with a driver of this name, version or hash, as `find_environments` finds.

    UnknownName if there is none.
    """
    if found := find_environments(tx, name):
        return found
    known = dict.fromkeys(word for names_of in name_drivers(tx).values() for word in names_of)
    raise UnknownName("driver", name, names.nearest(name, list(known)))


def find_environments(tx: Connection, name: str) -> dict[str, str]:
    """The environments with a driver of this name or version: what people call it, by hashes."""
    lowered = name.strip().casefold()
    return {
        environment: names_of[-1]
        for environment, names_of in name_drivers(tx).items()
        if lowered in map(str.casefold, names_of)
    }


def find_files(tx: Connection, name: str) -> set[str]:
    """The first digits of the hashes of the added drivers that a name or version means."""
    known = schema.environment.c
    query = select(known.facts).where(known.hash.in_(list(find_environments(tx, name))))
    extras = [facts.get("extra") or {} for facts in tx.execute(query).scalars()]
    return {extra[DRIVER_SHA] for extra in extras if extra.get(DRIVER_SHA)}


def name_drivers(tx: Connection) -> dict[str, tuple[str, ...]]:
    """The names of the driver of every environment: its version, its name, and both.

    One that a user added has a name of theirs and a hash, too.
    """
    known = schema.environment.c
    rows = tx.execute(
        select(known.hash, known.driver, known.driver_version, known.facts).order_by(known.hash)
    ).all()
    return {
        row.hash: (
            *(row.driver_version, row.driver),
            *_list_added_names(row.facts.get("extra") or {}),
            f"{row.driver} {row.driver_version}",
        )
        for row in rows
    }


def call_drivers(tx: Connection) -> dict[str, str]:
    """What people call the driver of each environment: as its user does, or by its version."""
    known = schema.environment.c
    rows = tx.execute(select(known.hash, known.driver, known.driver_version, known.facts))
    return {
        row.hash: (row.facts.get("extra") or {}).get(DRIVER_NAME)
        or f"{row.driver} {row.driver_version}"
        for row in rows
    }


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


def _list_added_names(extra: Mapping[str, str]) -> list[str]:
    return [extra[key] for key in (DRIVER_SHA, DRIVER_NAME) if extra.get(key)]
