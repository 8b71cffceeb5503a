"""The binding: what is said when it, the loader or a driver is missing, and what results mean."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from vkbench_worker.runtime import vk
from vkbench_worker.runtime.errors import DeviceLost, OutOfMemory, VulkanFailure

WITHOUT = """
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "vulkan":
            raise {error}
sys.meta_path.insert(0, Lacking())
import vkbench_worker.runner.execute, vkbench_worker.runner.main, vkbench_worker.owner.probe
from vkbench_worker.runner.listing import list_devices
print(list_devices().error)
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("OSError('Cannot find Vulkan SDK')", "apt install libvulkan1 mesa-vulkan-drivers"),
        ("ModuleNotFoundError('vulkan')", "pip install 'vkbench[worker]'"),
    ],
)
def test_nothing_fails_before_a_device_is_asked_for(error: str, words: str) -> None:
    code = WITHOUT.format(error=error)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert words in done.stdout
    assert done.stdout.count("\n") == 1


def test_no_driver_is_one_clear_line() -> None:
    code = "from vkbench_worker.owner.probe import local_devices; local_devices()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"VK_DRIVER_FILES": "/nonexistent.json"},
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("vkbench_worker.runtime.errors.NoDevice: ")
    assert "apt install mesa-vulkan-drivers" in last or "libvulkan1" in last


@pytest.mark.parametrize("result", [0, 1, 5])
def test_good_results_pass(result: int) -> None:
    vk.check(result, "vkCall")


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (-4, DeviceLost, "vkCall: VK_ERROR_DEVICE_LOST"),
        (-2, OutOfMemory, "vkCall: VK_ERROR_OUT_OF_DEVICE_MEMORY"),
        (-13, VulkanFailure, "vkCall: VkResult -13"),
    ],
)
def test_bad_results_raise_what_they_mean(result: int, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        vk.check(result, "vkCall")


def test_versions_are_readable() -> None:
    assert vk.version(1 << 22 | 3 << 12 | 239) == "1.3.239"
