"""A user of the runner's own, where root runs the worker: files and processes of root are not his.

He keeps root's right to open files whatever their owner, since the caches and Python may lie in
root's folders: Landlock says which. He is no owner of them, so that he can change neither their
modes nor their dates, and can signal no process of root or change how it is scheduled.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from vkbench_worker.containment import kernel
from vkbench_worker.containment.limits import OPEN_ALL_FILES

_NUMBERS: Final = range(60706, 61184)  # that neither Debian nor systemd gives to users
_SET_GROUP, _SET_USER = 6, 7  # CAP_SETGID, CAP_SETUID
_NEEDED: Final = 1 << OPEN_ALL_FILES | 1 << _SET_GROUP | 1 << _SET_USER
_PR_SET_KEEPCAPS: Final = 8


def can_change() -> bool:
    """Whether this process may become another user who opens all files."""
    return os.geteuid() == 0 and _capabilities() & _NEEDED == _NEEDED


def change() -> None:
    """Become the runner's user if possible; the groups stay, and so may the capabilities."""
    if not can_change():
        return
    number = next((free for free in _NUMBERS if not _has_name(free)), 0)
    kernel.prctl(_PR_SET_KEEPCAPS, 1)
    with suppress(OSError):  # a container may have no such number
        os.setresgid(number, number, number)
        os.setresuid(number, number, number)


def _capabilities() -> int:
    """The capabilities that this process has in force."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _has_name(number: int) -> bool:
    import pwd  # Windows has none

    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True
