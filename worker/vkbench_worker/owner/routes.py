"""How a device is reached through a driver that a user added, and stays the same device.

Another driver may show a device by another name and another UUID: those of Mesa's CPU driver hold
its version. What it shows is matched with a device of this host, whose key and names it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from vkbench.device import DRIVER_NAME, DRIVER_SHA, DeviceFacts, Environment
from vkbench.drivers.store import Driver, drivers_of
from vkbench.errors import UsageError
from vkbench.programs.build import SHA_SHOWN
from vkbench.selector import best, choose
from vkbench.settings import Settings
from vkbench_worker.containment import environment
from vkbench_worker.owner.probe import list_devices
from vkbench_worker.protocol import PROCESSOR, ListedDevice, Ready
from vkbench_worker.runtime.errors import NoDevice, RuntimeFault

_UNLIKE: Final = 0


@dataclass(frozen=True, kw_only=True)
class Route:
    """A device of this host as a driver shows it that was added."""

    driver: Driver
    manifest: Path
    selector: str  # of the device among those that the driver shows
    host_device: ListedDevice  # as the host's own driver shows it
    facts: DeviceFacts  # as this driver shows it, with the identity of the host's device
    environment: Environment

    def variables(self, settings: Settings) -> dict[str, str]:
        """The variables of a process that loads this driver and no other."""
        return environment.through_driver(environment.of(settings), self.manifest)

    @property
    def loader(self) -> Path | None:
        """What starts a process with the C library of the driver, if it has one of its own."""
        return _loader_of(self.driver, self.manifest)

    def arguments(self) -> tuple[str, ...]:
        """The arguments by which a runner opens the device."""
        return ("--device", self.selector, "--key", self.facts.key)

    def pipelines(self, settings: Settings) -> Path:
        """The folder of the driver's pipelines: one that wraps another has that one's names."""
        return settings.cache / "pipelines" / self.driver.sha[:SHA_SHOWN]

    def check_files(self, settings: Settings) -> None:
        """DamagedBuild where a file that stays in its place is not what was added; few do."""
        if self.driver.is_in_place:
            drivers_of(settings).prepare(self.driver)

    def identify(self, ready: Ready) -> Ready:
        """What a runner says of itself, as of the host's device through this driver."""
        return replace(
            ready,
            facts=_identify(ready.facts, self.host_device.facts),
            environment=_name_driver(ready.environment, self.driver),
        )


def find_routes(driver: Driver, selectors: Sequence[str], settings: Settings) -> list[Route]:
    """How chosen devices of this host are reached through a driver; by default the likeliest one.

    UsageError if the driver shows no device that could be one of those.
    """
    host = list_devices(environment.of(settings))
    manifest, shown = _ask_driver(driver, settings)
    if selectors:
        keys = {facts.key for facts in choose(selectors, _facts(host), settings.host)}
        chosen = [device for device in host if device.facts.key in keys]
    else:
        chosen = [_choose_likeliest(host, shown)]
    return [_route(driver, manifest, device, shown) for device in chosen]


def find_route(driver: Driver, ready: Ready, settings: Settings) -> Route:
    """How the device of a runner is reached through another driver; UsageError if it is not."""
    slot = "" if ready.hardware == PROCESSOR else ready.hardware
    device = ListedDevice(facts=ready.facts, environment=ready.environment, pci_address=slot)
    manifest, shown = _ask_driver(driver, settings)
    return _route(driver, manifest, device, shown)


def _ask_driver(driver: Driver, settings: Settings) -> tuple[Path, tuple[ListedDevice, ...]]:
    """A driver's manifest, if its files are what they were, and the devices that it shows."""
    manifest = drivers_of(settings).prepare(driver)
    return manifest, _list_shown(driver, manifest, settings)


@cache  # a process asks again for each round of pairs
def _list_shown(driver: Driver, manifest: Path, settings: Settings) -> tuple[ListedDevice, ...]:
    try:
        variables = environment.through_driver(environment.of(settings), manifest)
        return tuple(list_devices(variables, _loader_of(driver, manifest)))
    except NoDevice as error:
        raise UsageError(
            f"driver {driver.name} shows no device: the loader cannot load it here, or it supports "
            "no hardware of this machine; VK_LOADER_DEBUG=error,warn says more"
        ) from error
    except RuntimeFault as error:
        raise UsageError(f"driver {driver.name}: {error}") from error


def _loader_of(driver: Driver, manifest: Path) -> Path | None:
    return manifest.parent / driver.loader if driver.loader and not driver.is_in_place else None


def _facts(devices: Sequence[ListedDevice]) -> list[DeviceFacts]:
    return [device.facts for device in devices]


def _choose_likeliest(host: Sequence[ListedDevice], shown: Sequence[ListedDevice]) -> ListedDevice:
    """The host's device that is most surely one of those that a driver shows."""

    def rate(device: ListedDevice) -> int:
        return max(rate_likeness(device, other) for other in shown)

    most = max(map(rate, host))
    key = best([device.facts for device in host if rate(device) == most]).key
    return next(device for device in host if device.facts.key == key)


def _route(
    driver: Driver, manifest: Path, device: ListedDevice, shown: Sequence[ListedDevice]
) -> Route:
    likeness = max(rate_likeness(device, other) for other in shown)
    alike = [other for other in shown if rate_likeness(device, other) == likeness]
    if likeness == _UNLIKE or len(alike) > 1:
        names = ", ".join(other.facts.name for other in shown)
        which = "none" if likeness == _UNLIKE else "several of them"
        raise UsageError(
            f"driver {driver.name} shows {names}, and {which} may be {device.facts.name}: "
            "give another --device"
        )
    match = alike[0]
    return Route(
        driver=driver,
        manifest=manifest,
        selector=_select(match, shown),
        host_device=device,
        facts=_identify(match.facts, device.facts),
        environment=_name_driver(match.environment, driver),
    )


def _select(device: ListedDevice, shown: Sequence[ListedDevice]) -> str:
    """The word that means a device: its UUID, or its index where another one has that too."""
    uuids = [other.facts.uuid for other in shown]
    is_alone = uuids.count(device.facts.uuid) == 1
    return device.facts.uuid if is_alone else str(device.facts.index)


def rate_likeness(one: ListedDevice, other: ListedDevice) -> int:
    """How sure it is that two drivers show the same hardware; 0: they do not."""
    if (one.facts.type == "cpu") != (other.facts.type == "cpu"):
        return _UNLIKE
    if one.pci_address and other.pci_address and one.pci_address != other.pci_address:
        return _UNLIKE
    if one.facts.uuid == other.facts.uuid:
        return 4
    if one.pci_address and one.pci_address == other.pci_address:
        return 3
    if (one.facts.vendor_id, one.facts.device_id) == (other.facts.vendor_id, other.facts.device_id):
        return 2
    return 1 if one.facts.type == "cpu" else _UNLIKE


def _identify(facts: DeviceFacts, device: DeviceFacts) -> DeviceFacts:
    """What a driver says of a device, under the names that the host's own driver gives it."""
    return replace(facts, key=device.key, index=device.index, name=device.name, uuid=device.uuid)


def _name_driver(known: Environment, driver: Driver) -> Environment:
    extra = {DRIVER_NAME: driver.name, DRIVER_SHA: driver.sha[:SHA_SHOWN]}
    return replace(known, extra={**known.extra, **extra})
