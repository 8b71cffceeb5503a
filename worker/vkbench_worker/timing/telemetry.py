"""Clocks, temperature and power of a device where the platform tells, read outside timing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from vkbench.device import NVIDIA, DeviceFacts
from vkbench_worker.runtime.discovery import nvml

_SMI_FIELDS: Final = "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu"
_NAMES: Final = ("sm_mhz", "memory_mhz", "temperature_c", "power_w", "utilisation_percent")
# hwmon file -> (name, units of the file in one of ours)
_HWMON: Final = {
    "freq1_input": ("sm_mhz", 1e6),
    "freq2_input": ("memory_mhz", 1e6),
    "temp1_input": ("temperature_c", 1e3),
    "power1_average": ("power_w", 1e6),
}


def read(facts: DeviceFacts, pci_address: str) -> Mapping[str, float]:
    """What is known of the device now; empty where nothing is."""
    if facts.type == "cpu":
        return _processor()
    if facts.vendor_id == NVIDIA:
        reader = _nvml_reader(facts.uuid)
        return reader() if reader else _nvidia_smi(facts.uuid)
    return _hwmon(Path("/sys/bus/pci/devices") / pci_address / "hwmon") if pci_address else {}


def _nvml_reader(uuid: str) -> Callable[[], Mapping[str, float]] | None:
    """A function that reads one GPU through nvidia-ml-py; None where that is not to be had."""
    gpu = nvml.find_gpu(uuid)
    return partial(_nvml, *gpu) if gpu else None


def _nvml(pynvml: Any, handle: Any) -> Mapping[str, float]:
    readings: dict[str, Callable[[], float]] = {
        "sm_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(
            handle, pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
        "utilisation_percent": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    }
    values = {}
    for name, reading in readings.items():
        with suppress(pynvml.NVMLError):
            values[name] = float(reading())
    return values


@cache
def _smi_missing() -> set[str]:
    return set()


def _nvidia_smi(uuid: str) -> Mapping[str, float]:
    if uuid in _smi_missing():
        return {}
    command = [
        "nvidia-smi",
        f"--id={nvml.name_uuid(uuid)}",
        f"--query-gpu={_SMI_FIELDS}",
        "--format=csv,noheader,nounits",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        _smi_missing().add(uuid)  # asking again would cost each job the same time for nothing
        return {}
    return {
        name: value
        for name, text in zip(_NAMES, done.stdout.split(","), strict=False)
        if (value := _number(text)) is not None
    }


def _hwmon(folder: Path) -> Mapping[str, float]:
    values = {}
    for sensors in folder.glob("hwmon*"):
        for file, (name, unit) in _HWMON.items():
            value = _number_in(sensors / file)
            if value is not None:
                values[name] = value / unit
    return values


def _processor() -> Mapping[str, float]:
    """The mean clock of the host's processors."""
    files = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    clocks = [value for file in files if (value := _number_in(file)) is not None]
    return {"cpu_mhz": sum(clocks) / len(clocks) / 1e3} if clocks else {}


def _number_in(path: Path) -> float | None:
    try:
        return _number(path.read_text())
    except OSError:
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
