"""What other processes do, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def state(pid: int) -> str:
    """What a process does, by a letter of Linux: T if it stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found = [
        int(number)
        for tasks in Path(f"/proc/{pid}/task").glob("*/children")
        for number in _words(tasks)
    ]
    return sorted(found)


def family(pid: int) -> list[int]:
    """A process and all that it has started, and they, and so on."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def own_bytes(pid: int, *, shared: bool = True) -> int:
    """Memory of a process, what it shares counted by its share; 0 of one that has ended.

    Without what it shares: a database's processes touch their common buffers bit by bit.
    """
    name = "Pss:" if shared else "Pss_Anon:"
    words = _words(Path(f"/proc/{pid}/smaps_rollup"))
    return int(words[words.index(name) + 1]) * 1024 if name in words else 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the process has ended
        return []


def wait_until(true: Callable[[], object], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)
