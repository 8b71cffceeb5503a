"""Which drivers of hosts a word means, and which devices are reached through each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from vkbench.device import EVERY_DRIVER, HostDriver
from vkbench.errors import NothingToDo, UnknownName
from vkbench.programs.program import DRIVER
from vkbench.words.names import nearest, pick_sha
from vkbench_db.ask.devices.drivers import read_drivers
from vkbench_scheduler.planning.selection import Selection

_SHA_DIGITS: Final = 64


def find_able(tx: Connection, keys: Sequence[str], word: str) -> dict[str, tuple[HostDriver, ...]]:
    """The drivers of each device's host; NothingToDo if no worker of them knows drivers.

    `*` means those that users added; a name may be that of a copy of the host's own driver, too.
    """
    able = {}
    for kept in read_drivers(tx, keys):
        if kept.added is not None:
            own = kept.own.copies if kept.own and word != EVERY_DRIVER else ()
            copies = (HostDriver(name=copy.name, sha=copy.sha) for copy in own)
            able[kept.device] = (*kept.added, *copies)
    if not able:
        raise NothingToDo("the workers of these devices are of a version that knows no drivers")
    return able


def pick_announced(
    word: str, able: Mapping[str, Sequence[HostDriver]]
) -> dict[HostDriver, list[str]]:
    """The devices (keys) by their own hosts' drivers of a name or hash, which are in no doubt."""
    devices: dict[HostDriver, list[str]] = {}
    for key, drivers in able.items():
        named = {driver.sha: driver for driver in drivers}
        for sha in _pick(word, {sha: driver.name for sha, driver in named.items()}):
            known = next((one for one in devices if one.sha == sha), named[sha])
            devices.setdefault(known, []).append(key)
    if not devices and word == EVERY_DRIVER:
        raise NothingToDo("no host of these devices has a driver: `vkbench driver add` there")
    if not devices:
        names = list({driver.name for drivers in able.values() for driver in drivers})
        raise UnknownName(DRIVER, word, nearest(word, names), tuple(names[-3:]))
    return devices


def find_devices(tx: Connection, word: str, keys: Sequence[str]) -> dict[str, list[str]]:
    """The devices that the drivers of a word reach now, by the drivers' hashes.

    A whole hash means a driver that goes where its jobs go.
    """
    able = find_able(tx, keys, word)
    added = {driver.sha for drivers in able.values() for driver in drivers}
    if len(word) == _SHA_DIGITS and word not in added:
        return {word: list(able)}
    return {driver.sha: devices for driver, devices in pick_announced(word, able).items()}


def choose_through(selection: Selection, devices: Mapping[str, Sequence[str]]) -> Selection:
    """The selection for the devices that drivers reach; of several, timings join no history."""
    keys = tuple(dict.fromkeys(key for reached in devices.values() for key in reached))
    if len(devices) == 1:
        return replace(selection, devices=keys, driver=next(iter(devices)))
    return replace(selection, devices=keys, driver=EVERY_DRIVER, track="")


def _pick(word: str, names: Mapping[str, str]) -> list[str]:
    if word == EVERY_DRIVER:
        return list(names)
    try:
        return [pick_sha(word, names, DRIVER)]
    except UnknownName:
        return []
