"""Classes of devices that share a tuning table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from vkbench.device import DeviceFacts
from vkbench.settings import settings

_NVIDIA, _AMD, _INTEL = 0x10DE, 0x1002, 0x8086


@dataclass(frozen=True, kw_only=True)
class DeviceClass:
    """Devices so alike that a configuration which is fast on one of them is fast on all."""

    name: str  # and of its table
    description: str
    type: str = ""  # of the device; "": any
    vendor: int = 0  # 0: any
    words: tuple[str, ...] = ()  # of which the device's name has one, whatever their case

    def has(self, device: DeviceFacts) -> bool:
        """Whether a device is of this class."""
        name = device.name.casefold()
        return (
            self.type in ("", device.type)
            and self.vendor in (0, device.vendor_id)
            and (not self.words or any(word.casefold() in name for word in self.words))
        )


ANY = "any"  # the table of what holds for classes that have none of it
UNKNOWN = DeviceClass(name="unknown", description="all other devices")
CLASSES = (  # a device is of the first one that has it
    DeviceClass(name="cpu", description="CPU drivers", type="cpu"),
    DeviceClass(
        name="nvidia-hopper",
        description="NVIDIA Hopper",
        vendor=_NVIDIA,
        words=("H100", "H200", "H800", "H20", "GH200"),
    ),
    DeviceClass(
        name="amd-rdna",
        description="AMD RDNA",
        vendor=_AMD,
        words=("Navi", "RDNA", "gfx10", "gfx11", "gfx12", "RX 5", "RX 6", "RX 7", "RX 9"),
    ),
    DeviceClass(
        name="intel-xe", description="Intel Xe", vendor=_INTEL, words=("Arc", "Xe", "Battlemage")
    ),
    UNKNOWN,
)


def installed_path(device_class: str) -> Path:
    """Where the table of a class lies if it was installed on this host."""
    return settings().data / "tuning" / f"{device_class}.json"


def shipped_file(device_class: str) -> Traversable:
    """Where the package has the table of a class."""
    return files("vkbench_shaders.tuning") / f"{device_class}.json"


def read_tables(device_class: str) -> Iterable[dict[str, Any]]:
    """The tables of a class as JSON: the installed one first, then the one that ships."""
    both: tuple[Traversable, ...] = (installed_path(device_class), shipped_file(device_class))
    return [json.loads(file.read_text()) for file in both if file.is_file()]


def class_of(device: DeviceFacts) -> DeviceClass:
    """The class of a device."""
    return next(kind for kind in CLASSES if kind.has(device))
