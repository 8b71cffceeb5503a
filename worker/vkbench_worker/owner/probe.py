"""The devices of this host, listed by a process of its own, since a driver may crash."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.messages import wire
from vkbench.settings import Settings, settings
from vkbench_worker.containment import environment
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.protocol import ListedDevice, Listing
from vkbench_worker.runtime.errors import NoDevice, RuntimeFault

TIMEOUT_SECONDS: Final = 60.0


def local_devices(given: Settings | None = None) -> list[DeviceFacts]:
    """Every Vulkan device of this host; the one clear error says why there is none."""
    return [listed.facts for listed in list_devices(environment.of(given or settings()))]


def list_devices(variables: Mapping[str, str], loader: Path | None = None) -> list[ListedDevice]:
    """Every device that a process with these variables finds; one clear error if there is none.

    With a loader the process is started by that.
    """
    try:
        done = subprocess.run(
            contained_command("vkbench_worker.runner.listing", loader=loader),
            stdin=subprocess.DEVNULL,  # it may be a terminal
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env=variables,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeFault(
            f"listing the Vulkan devices took over {TIMEOUT_SECONDS:g} s: a driver hangs"
        ) from error
    if done.returncode != 0:
        raise RuntimeFault(f"listing the Vulkan devices failed: {_ending(done)}")
    listing = wire.decode(done.stdout, Listing)
    if listing.error is not None:
        raise NoDevice(listing.error)
    return list(listing.devices)


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    words = done.stderr.decode(errors="replace").strip().splitlines()
    cause = f"exit status {done.returncode}"
    if done.returncode < 0:
        cause = f"a driver crashed with {signal.Signals(-done.returncode).name}"
    return f"{cause}: {words[-1]}" if words else cause
