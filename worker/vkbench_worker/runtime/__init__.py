"""Vulkan in four nouns: Device, Buffer, Pipeline, Recording; and NullDevice to test without it."""

from __future__ import annotations

from vkbench.device import DeviceFacts
from vkbench.settings import settings
from vkbench_worker.runtime import device as _device


def devices() -> list[DeviceFacts]:
    """Every device of this host, in the loader's order; NoLoader or NoDevice when there is none."""
    return _device.devices(settings())
