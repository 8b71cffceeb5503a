"""What other processes do, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def state(pid: int) -> str:
    """What a process does, by a letter of Linux: T if it stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def wait_until(true: Callable[[], object], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)
