"""CPU Vulkan drivers, found where distributions put them, as the devices of these tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path
from typing import NoReturn

import pytest

from vkbench.settings import Settings, read
from vkbench_shaders.bundle import PACKAGED, Bundle, packaged
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Need = Callable[[str, str], NoReturn]

LAVAPIPE = ("/usr/share/vulkan/icd.d/lvp_icd*.json", "/usr/local/share/vulkan/icd.d/lvp_icd*.json")
NEW_LAVAPIPE = Path(sys.prefix, "driver.json")  # there in a Python of scripts/new-lavapipe
SWIFTSHADER = (
    "/usr/lib/chromium/vk_swiftshader_icd.json",
    "/usr/lib/chromium-browser/vk_swiftshader_icd.json",
    "/usr/share/vulkan/icd.d/*swiftshader*.json",
)


def _first(patterns: tuple[str, ...]) -> str:
    return next((path for pattern in patterns for path in sorted(glob(pattern))), "")


@pytest.fixture(scope="session")
def drivers() -> Iterator[dict[str, str]]:
    """ICD files by device name, and the loader told to use just these."""
    found = {"llvmpipe": _first(LAVAPIPE), "SwiftShader": _first(SWIFTSHADER)}
    if NEW_LAVAPIPE.exists():  # which has this one driver alone
        found = {"llvmpipe": str(NEW_LAVAPIPE), "SwiftShader": ""}
    before = os.environ.get("VK_DRIVER_FILES")
    os.environ["VK_DRIVER_FILES"] = ":".join(filter(None, found.values()))
    yield found
    if before is None:
        del os.environ["VK_DRIVER_FILES"]
    else:
        os.environ["VK_DRIVER_FILES"] = before


@pytest.fixture(scope="session")
def gpu_settings(session_cache: Path) -> Settings:
    """Devices that check no bounds, as those of the packaged bundle."""
    folders = {"VKBENCH_CACHE": str(session_cache), "VKBENCH_DATA": str(session_cache / "data")}
    return read({**folders, "VKBENCH_ROBUST": "0"})


@pytest.fixture(scope="session")
def lavapipe(drivers: dict[str, str], gpu_settings: Settings, need: Need) -> Iterator[VulkanDevice]:
    if not drivers["llvmpipe"]:
        need("gpu", "lavapipe is not installed (apt install mesa-vulkan-drivers)")
    with VulkanDevice.open("llvmpipe", gpu_settings) as device:
        yield device


@pytest.fixture(scope="session")
def swiftshader(
    drivers: dict[str, str], gpu_settings: Settings, need: Need
) -> Iterator[VulkanDevice]:
    if not drivers["SwiftShader"]:
        need("swiftshader", "SwiftShader is not installed (apt install chromium)")
    with VulkanDevice.open("SwiftShader", gpu_settings) as device:
        yield device


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    if not PACKAGED.exists():
        pytest.fail(
            "the kernels are not built: python -m vkbench_shaders.compile.build", pytrace=False
        )
    return packaged()
