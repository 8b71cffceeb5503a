"""The devices of this machine, and those that selectors choose."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.device import DeviceFacts
from vkbench.selector import best, choose
from vkbench.settings import Settings
from vkbench_worker.owner.probe import local_devices


def all_devices() -> list[DeviceFacts]:
    """Every device of this machine, found by a subprocess; one clear error if there is none."""
    return local_devices()


def chosen_devices(selectors: Sequence[str], settings: Settings) -> list[DeviceFacts]:
    """The devices of this machine that selectors mean; the best one if there are none."""
    devices = all_devices()
    given = list(selectors) or list(filter(None, [settings.device]))
    if given:
        return choose(given, devices, settings.host)
    return [best(devices)]
