"""A /dev/shm of a process's own: what others share there, it neither sees nor changes.

It takes a mount namespace. Root may make one; others may in a user namespace, where the system lets
them. A process that can make none has no /dev/shm at all, see places.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from vkbench_worker.containment import kernel, limits

FOLDER: Final = Path("/dev/shm")
_MOUNTS, _USERS = 0x00020000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
_PRIVATE: Final = 0x40000 | 0x4000  # MS_PRIVATE | MS_REC
_PLAIN: Final = 0x2 | 0x4 | 0x8  # MS_NOSUID | MS_NODEV | MS_NOEXEC


def separate() -> bool:
    """Give this process a /dev/shm of its own, if possible; it has no other thread yet."""
    if not is_possible():
        return False
    _mount()
    return True


def is_possible() -> bool:
    """Try `separate` in a child process: half of it could not be taken back here."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        _mount()
        os._exit(0)
    finally:
        os._exit(1)


def _mount() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        kernel.unshare(_MOUNTS)
    elif limits.can_drop_capabilities():  # it has all of them in the new namespace
        kernel.unshare(_MOUNTS | _USERS)
        process = Path("/proc/self")
        (process / "setgroups").write_text("deny")
        (process / "uid_map").write_text(f"{user} {user} 1")
        (process / "gid_map").write_text(f"{group} {group} 1")
    else:
        raise PermissionError
    kernel.mount(b"none", b"/", b"", _PRIVATE)
    kernel.mount(b"tmpfs", bytes(FOLDER), b"tmpfs", _PLAIN)


if __name__ == "__main__":
    sys.exit(not is_possible())
