"""The devices of this host, asked for in a process of its own, since a driver may crash.

python -m vkbench_worker.probe      prints {"devices": [...], "error": null or one line}
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from vkbench import wire
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench_worker.runtime import devices
from vkbench_worker.runtime.errors import NoDevice, RuntimeFault

TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a probe found."""

    devices: tuple[DeviceFacts, ...] = ()
    error: str | None = None


def local_devices() -> list[DeviceFacts]:
    """Every Vulkan device of this host; the one clear error says why there is none."""
    command = [sys.executable, "-m", "vkbench_worker.probe"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise RuntimeFault(
            f"listing the Vulkan devices took over {TIMEOUT_SECONDS:g} s: a driver hangs"
        ) from error
    if done.returncode != 0:
        raise RuntimeFault(f"listing the Vulkan devices failed: {_ending(done)}")
    report = wire.decode(done.stdout, Report)
    if report.error is not None:
        raise NoDevice(report.error)
    return list(report.devices)


def report() -> Report:
    """What this process finds."""
    try:
        return Report(devices=tuple(devices()))
    except VkbenchError as error:
        return Report(error=str(error))


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    words = done.stderr.decode(errors="replace").strip().splitlines()
    cause = f"exit status {done.returncode}"
    if done.returncode < 0:
        cause = f"a driver crashed with {signal.Signals(-done.returncode).name}"
    return f"{cause}: {words[-1]}" if words else cause


def _main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # drivers talk on stdout
    os.write(answer, wire.encode(report()) + b"\n")


if __name__ == "__main__":
    _main()
