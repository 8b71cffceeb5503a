"""Lists the Vulkan devices of this host: the process that `owner/probe.py` starts and reads.

python -m vkbench_worker.runner.listing   prints {"devices": [...], "error": null or one line}
"""

from __future__ import annotations

import os

from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.settings import Settings, settings
from vkbench_worker.protocol import ListedDevice, Listing
from vkbench_worker.runtime.discovery.instance import Instance
from vkbench_worker.runtime.discovery.physical import candidates


def list_devices() -> Listing:
    """The devices that this process finds, or why it finds none."""
    try:
        return Listing(devices=find_devices(settings()))
    except VkbenchError as error:
        return Listing(error=str(error))


def find_devices(settings: Settings) -> tuple[ListedDevice, ...]:
    """Every device of this host, none of them opened."""
    with Instance(settings) as instance:
        return tuple(
            ListedDevice(
                facts=candidate.facts,
                environment=candidate.physical.environment(),
                pci_address=candidate.physical.pci_address,
            )
            for candidate in candidates(instance, settings.host)
        )


def _main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # drivers write to stdout as well
    os.write(answer, wire.encode(list_devices()) + b"\n")


if __name__ == "__main__":
    _main()
