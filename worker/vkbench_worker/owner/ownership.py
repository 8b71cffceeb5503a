"""The lock of the supervisor that owns a device: one on a host, whatever runners it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from vkbench.process import system

LOOK_SECONDS: Final = 0.1  # between looks whether the device is free


def own(path: Path) -> IO[str] | None:
    """The locked file, to be kept open; None while another supervisor has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.open("a")
    if system.lock(owner, waits=False):
        return owner
    owner.close()
    return None


def await_release(path: Path, leaving: Callable[[], bool]) -> None:
    """Wait until no supervisor has it, or `leaving` comes true."""
    while not leaving():
        owner = own(path)
        if owner:
            owner.close()
            return
        time.sleep(LOOK_SECONDS)
