"""The lock of the supervisor that owns a device: one on a host, whatever runners it starts."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


def own(path: Path) -> IO[str] | None:
    """The locked file, to be kept open; None while another supervisor has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.open("a")
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner.close()
        return None
    return owner


def await_release(path: Path) -> None:
    """Wait until no supervisor has it."""
    with path.open("a") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
