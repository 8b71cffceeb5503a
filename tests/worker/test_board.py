"""What is recorded of the board around a GPU, of the files that its platform would have."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vkbench.device import NVIDIA
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery import board, nvml

SLOT = "0000:01:00.0"
AMD = 0x1002


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(board, "_SYSFS", tmp_path)
    monkeypatch.setattr(board, "_PROC", tmp_path)
    monkeypatch.setattr(nvml, "find_gpu", lambda uuid: None)
    return tmp_path / SLOT


def test_a_card_of_amd_names_each_firmware_and_its_power_cap(sysfs: Path) -> None:
    files = {
        "vbios_version": "113-D7",
        "fw_version/smc_fw_version": "0x004e7e00",
        "fw_version/vce_fw_version": "0x00000000",  # a processor that the card lacks
        "hwmon/hwmon3/power1_cap": "300000000",
    }
    for name, text in files.items():
        (sysfs / name).parent.mkdir(parents=True, exist_ok=True)
        (sysfs / name).write_text(f"{text}\n")
    told = {"vbios": "113-D7", "firmware_smc": "4e7e00", "power_cap": "300 W"}
    assert board.describe_board(AMD, "", SLOT) == told
    assert board.describe_board(AMD, "", "") == {}


@pytest.mark.usefixtures("sysfs")
def test_versions_are_text_however_the_library_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(
        NVMLError=OSError,
        nvmlDeviceGetPowerManagementLimit=lambda handle: 700_000,
        nvmlDeviceGetGspFirmwareVersion=lambda handle: b"580.159.04",
        nvmlDeviceGetVbiosVersion=lambda handle: "96.00.A5",
    )
    monkeypatch.setattr(nvml, "find_gpu", lambda uuid: (library, None))
    told = {"power_cap": "700 W", "firmware": "580.159.04", "vbios": "96.00.A5"}
    assert board.describe_board(NVIDIA, "", SLOT) == told


def test_a_card_of_nvidia_names_its_firmware_without_the_library(sysfs: Path) -> None:
    sysfs.mkdir()
    told = "Model: \t\t H100\nVideo BIOS: \t ??.??.??.??.??\nGPU Firmware: \t 580.159.04\n"
    (sysfs / "information").write_text(told)
    assert board.describe_board(NVIDIA, "", SLOT) == {"firmware": "580.159.04"}


@pytest.mark.parametrize(("window", "word"), [(256 << 20, "off"), (24 << 30, "on"), (0, "off")])
def test_a_bar_is_resizable_if_the_host_reaches_all_memory(window: int, word: str) -> None:
    assert board.describe_bar(memory_with(window)) == word


def memory_with(window: int) -> Any:
    """The memory of a card of 24 GB, of which the host reaches a window, maybe all of it."""
    local, visible = vk.Memory.DEVICE_LOCAL, vk.Memory.DEVICE_LOCAL | vk.Memory.HOST_VISIBLE
    heaps = [SimpleNamespace(size=size) for size in (24 << 30, 64 << 30, window)]
    types = [(local, 0), (vk.Memory.HOST_VISIBLE, 1), *([(visible, 2)] if window else [])]
    kinds = [SimpleNamespace(propertyFlags=flags, heapIndex=heap) for flags, heap in types]
    return SimpleNamespace(
        memoryHeaps=heaps, memoryHeapCount=3, memoryTypes=kinds, memoryTypeCount=len(kinds)
    )
