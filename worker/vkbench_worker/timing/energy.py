"""Joules of one launch: what the energy counter of a GPU rises by over a long row of launches.

The counter moves a few times a second, so that the row begins and ends where it moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from math import ceil
from pathlib import Path
from typing import Final

from vkbench.device import NVIDIA
from vkbench.result import Statistic
from vkbench_worker.runtime.device import Device, Recording
from vkbench_worker.runtime.discovery import nvml
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.measure import MOST_LAUNCHES

ENERGY: Final = "energy of a launch"
JOULES: Final = "J"
_WARM_SECONDS: Final = 0.5
_ROW_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_RECORDING_SECONDS: Final = 10e-3
_HWMON: Final = Path("/sys/bus/pci/devices")

Counter = Callable[[], float]  # joules since some moment


def measure_energy(device: Device, bench: Bench) -> Statistic:
    """Joules of one launch, or why nobody knows."""
    counter = find_counter(device)
    if isinstance(counter, str):
        return _unknown(counter)
    if bench.restored:
        return _unknown("its launches change what they read, and copies would count too")
    launches = min(MOST_LAUNCHES, max(1, ceil(_RECORDING_SECONDS / bench.seconds)))
    with closing(device.record(bench.work.launch(bench.buffers) * launches)) as recording:
        joules = spend(recording, counter)
    if joules is None:
        return _unknown(f"the counter did not move within {_PATIENCE_SECONDS:g} s")
    return Statistic(name=ENERGY, value=joules / launches, unit=JOULES, spread=0.0)


def spend(recording: Recording, counter: Counter) -> float | None:
    """Joules of one run of a recording, over a row of runs; None if the counter stands still."""
    _run_for(recording, _WARM_SECONDS)
    if _run_until_moved(recording, counter) is None:
        return None
    first, began, runs = counter(), time.perf_counter(), 0
    while time.perf_counter() - began < _ROW_SECONDS:
        recording.run()
        runs += 1
    more = _run_until_moved(recording, counter)
    return None if more is None else (counter() - first) / (runs + more)


def find_counter(device: Device) -> Counter | str:
    """The energy counter of a device in joules, or why there is none."""
    if device.facts.type == "cpu":
        return "a CPU driver shares the processor"
    if device.facts.vendor_id == NVIDIA:
        return _nvml_counter(device.facts.uuid)
    files = sorted((_HWMON / device.pci_address).glob("hwmon/hwmon*/energy1_input"))
    if not (device.pci_address and files):
        return "the system has no energy counter of the device"
    return lambda: float(files[0].read_text()) / 1e6


def _nvml_counter(uuid: str) -> Counter | str:
    gpu = nvml.find_gpu(uuid)
    if gpu is None:
        return "NVIDIA's management library does not answer"
    library, handle = gpu
    try:
        library.nvmlDeviceGetTotalEnergyConsumption(handle)
    except library.NVMLError as error:
        return f"its energy counter: {error}"
    return lambda: library.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3


def _run_for(recording: Recording, seconds: float) -> None:
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        recording.run()


def _run_until_moved(recording: Recording, counter: Counter) -> int | None:
    """How many runs it took until the counter moved; None if it does not."""
    before, began, runs = counter(), time.perf_counter(), 0
    while time.perf_counter() - began < _PATIENCE_SECONDS:
        recording.run()
        runs += 1
        if counter() != before:
            return runs
    return None


def _unknown(note: str) -> Statistic:
    return Statistic(name=ENERGY, value=None, unit=JOULES, note=note)
