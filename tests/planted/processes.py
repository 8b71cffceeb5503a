"""What other processes do, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

_RESIDENT = ("RssAnon:", "RssFile:", "RssShmem:")


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


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used; 0 of one that has ended.

    From the scheduler of Linux, in nanoseconds: `stat` counts in hundredths of a second.
    """
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(words[0]) for task in tasks if (words := _words(task))) / 1e9


def program_of(pid: int) -> str:
    """The name of a process's program."""
    return " ".join(_words(Path(f"/proc/{pid}/comm")))


def own_bytes(pid: int, *, shared: bool = True) -> int:
    """Resident memory of a process; 0 of one that has ended.

    Without shared memory, if asked: a database's processes touch their common buffers bit by bit.
    What a process shares counts whole, so that nothing depends on which others run.
    """
    words = _words(Path(f"/proc/{pid}/status"))
    sizes = {name: int(size) for name, size in pairwise(words) if name in _RESIDENT}
    return sum(size for name, size in sizes.items() if shared or name != "RssShmem:") * 1024


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
