"""What the board around a GPU is set to, which no driver's version tells: firmware, power cap, BAR.

All of it stays as it is until somebody changes it, so that it may be part of an environment; what
moves by itself, such as clocks and the memory that others hold, is told with each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from vkbench.device import NVIDIA
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery import nvml

_SYSFS: Final = Path("/sys/bus/pci/devices")
_PROC: Final = Path("/proc/driver/nvidia/gpus")
_PROC_NAMES: Final = {"GPU Firmware": "firmware", "Video BIOS": "vbios"}
_UNKNOWN: Final = ("", "N/A", "??.??.??.??.??")
_WHOLE: Final = 0.9  # of its memory that a host has to reach for its BAR to count as resizable
_MICRO: Final = 1e6


def describe_board(vendor: int, uuid: str, pci_address: str) -> dict[str, str]:
    """Firmware and power cap of a GPU by the names of an environment; what is unknown is absent."""
    if vendor == NVIDIA:
        return {**_read_proc(pci_address), **_read_nvml(uuid)}
    return dict(_read_sysfs(_SYSFS / pci_address)) if pci_address else {}


def describe_bar(memory: Any) -> str:
    """Whether the host reaches all of it, by VkPhysicalDeviceMemoryProperties: on or off."""
    heaps = [int(memory.memoryHeaps[place].size) for place in range(memory.memoryHeapCount)]
    local = vk.Memory.DEVICE_LOCAL
    kinds = [memory.memoryTypes[place] for place in range(memory.memoryTypeCount)]
    own = [kind for kind in kinds if kind.propertyFlags & local]
    seen = [kind for kind in own if kind.propertyFlags & vk.Memory.HOST_VISIBLE]
    largest = max((heaps[kind.heapIndex] for kind in own), default=0)
    reached = max((heaps[kind.heapIndex] for kind in seen), default=0)
    return "on" if largest and reached >= _WHOLE * largest else "off"


def _read_proc(pci_address: str) -> dict[str, str]:
    """What NVIDIA's kernel module says of a GPU."""
    try:
        lines = (_PROC / pci_address / "information").read_text().splitlines()
    except OSError:
        return {}
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {new: facts.get(old, "").strip() for old, new in _PROC_NAMES.items()}
    return {name: value for name, value in named.items() if value not in _UNKNOWN}


def _read_nvml(uuid: str) -> dict[str, str]:
    gpu = nvml.find_gpu(uuid)
    if gpu is None:
        return {}
    library, handle = gpu
    readings: dict[str, Callable[[], str]] = {
        "power_cap": lambda: _watts(library.nvmlDeviceGetPowerManagementLimit(handle) / 1e3),
        "firmware": lambda: _text_of(library.nvmlDeviceGetGspFirmwareVersion(handle)),
        "vbios": lambda: _text_of(library.nvmlDeviceGetVbiosVersion(handle)),
    }
    values = {}
    for name, reading in readings.items():
        # a driver may be older than a function
        with suppress(library.NVMLError, AttributeError):
            values[name] = reading()
    return {name: value for name, value in values.items() if value not in _UNKNOWN}


def _text_of(version: str | bytes) -> str:
    """A version as text: some functions of the library leave it as bytes."""
    return version.decode(errors="replace") if isinstance(version, bytes) else version


def _read_sysfs(device: Path) -> Iterator[tuple[str, str]]:
    """What drivers of the system's kernel say of a GPU: amdgpu, i915, xe."""
    if bios := _read_text(device / "vbios_version"):
        yield "vbios", bios
    for file in sorted(device.glob("fw_version/*_fw_version")):
        if version := _read_text(file).removeprefix("0x").lstrip("0"):
            yield f"firmware_{file.name.removesuffix('_fw_version')}", version
    for file in sorted(device.glob("hwmon/hwmon*/power1_cap")):
        if (cap := _read_text(file)).isdigit() and int(cap):
            yield "power_cap", _watts(int(cap) / _MICRO)


def _watts(number: float) -> str:
    return f"{number:.0f} W"


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
