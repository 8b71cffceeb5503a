"""Lists this machine's devices; without a driver there are none, and the command goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.errors import VkbenchError
from vkbench_cli.show.telling import tell

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts


def devices_if_any(otherwise: str) -> list[DeviceFacts]:
    """The devices of this machine; without a driver none, and stderr says what happens instead."""
    from vkbench_local.machine import all_devices

    try:
        return all_devices()
    except (VkbenchError, ModuleNotFoundError) as error:
        tell(f"no device here, so {otherwise}: {error}")
        return []
