"""Devices are asked how they round halves; one that does it otherwise is found out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkbench_shaders.bundle import PACKING, Bundle
from vkbench_worker.runtime import packing
from vkbench_worker.runtime.packing import pack_on_device, rounds_to_nearest, tried_values
from vkbench_worker.runtime.vulkan.device import VulkanDevice

HALVES = np.arange(0x7C00, dtype=np.uint16).view(np.float16)


def test_a_half_is_packed_as_it_is(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    values = np.resize(HALVES.astype(np.float32), 0x8000)
    found = pack_on_device(lavapipe, bundle.code(PACKING.key), values)
    assert np.array_equal(found[: HALVES.size], HALVES)


def as_if_gpu(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "facts", replace(device.facts, type="discrete"))


def test_what_a_device_does_decides(
    lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not rounds_to_nearest(lavapipe)  # a CPU driver is not asked
    as_if_gpu(lavapipe, monkeypatch)
    with np.errstate(over="ignore", invalid="ignore"):
        right = tried_values().astype(np.float16)
        upwards = np.nextafter(right, np.float16(np.inf))
    monkeypatch.setattr(packing, "pack_on_device", lambda *_: right)
    assert rounds_to_nearest(lavapipe)
    for place in (5, right.size // 3):
        monkeypatch.setattr(
            packing,
            "pack_on_device",
            lambda *_, p=place: np.where(np.arange(right.size) == p, upwards, right),
        )
        assert not rounds_to_nearest(lavapipe)


def test_cutting_off_is_found_out(lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_gpu(lavapipe, monkeypatch)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = tried_values().astype(np.float16)
        beyond = np.abs(nearest.astype(np.float32)) > np.abs(tried_values())
        cut = np.where(beyond, np.nextafter(nearest, np.float16(0)), nearest)
    monkeypatch.setattr(packing, "pack_on_device", lambda *_: cut)
    assert not rounds_to_nearest(lavapipe)
