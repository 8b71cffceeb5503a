"""The gauge of a GPU's clock: it runs, and is asked only where its answer counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import NVIDIA
from vkbench_shaders.bundle import GAUGE, Bundle
from vkbench_worker.runtime import gauge
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.device import VulkanDevice


def test_a_launch_takes_time_and_leaves_nothing_behind(
    lavapipe: VulkanDevice, bundle: Bundle
) -> None:
    code, sha = bundle.code(GAUGE.key), bundle.entry(GAUGE.key).sha256
    program = Program(code=code, sha=sha, bindings=(0,), push_bytes=0, constants=())
    gauge.seconds(lavapipe, program)
    held = lavapipe.live.copy()
    assert gauge.seconds(lavapipe, program) > 0
    assert lavapipe.live == held


@pytest.mark.parametrize("vendor", [0x1002, NVIDIA])
def test_only_devices_of_nvidia_have_one(
    lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch, vendor: int
) -> None:
    assert gauge.of(lavapipe) is None
    monkeypatch.setattr(lavapipe, "facts", replace(lavapipe.facts, vendor_id=vendor))
    found = gauge.of(lavapipe)
    assert (found is not None) == (vendor == NVIDIA)
    if found:
        assert found() > 0
