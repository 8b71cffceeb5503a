"""What a contained process may use at most, and the privileges that it gives up."""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress
from typing import Final

from vkbench_worker.containment import kernel

_FILES: Final = 65536  # open at once
_TASKS: Final = 8192  # processes and threads of the user, root apart
OPEN_ALL_FILES: Final = 1  # CAP_DAC_OVERRIDE
_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT, _RAISE = 47, 2
_CAPSET: Final = {"x86_64": 126, "aarch64": 91}
_CAPSET_VERSION: Final = 0x20080522


def limit() -> None:
    """Lower the limits of this process and what it starts, for ever.

    A driver may keep device memory in a file without a name, so a file may be as large as the
    host's memory. Addresses are not limited: drivers reserve more than there is memory.
    """
    import resource  # Windows has none

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, memory),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_NPROC, _TASKS),
    ):
        soft, hard = (
            most if now == resource.RLIM_INFINITY else min(now, most)
            for now in resource.getrlimit(kind)
        )
        resource.setrlimit(kind, (soft, hard))


def can_drop_capabilities() -> bool:
    """Whether `drop_capabilities` knows this processor's call."""
    return platform.machine() in _CAPSET


def drop_capabilities(*, keep: int | None) -> None:
    """Give up all privileges, but for one if that is named."""
    if not can_drop_capabilities():
        return
    with suppress(OSError):  # a container may have taken the right to do so, or there are no more
        for capability in range(64):
            if capability != keep:
                kernel.prctl(_PR_CAPBSET_DROP, capability)
    if keep is None or not _set_capabilities(1 << keep):
        _set_capabilities(0)
        return
    with suppress(OSError):  # for what this process starts, since it is no root's any more
        kernel.prctl(_PR_CAP_AMBIENT, _RAISE, keep)


def _set_capabilities(kept: int) -> bool:
    """Whether this process has these now; a container may have taken them before."""
    header = (ctypes.c_uint32 * 2)(_CAPSET_VERSION, 0)
    # effective, permitted, inheritable; then the same for capabilities above 31
    sets = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    with suppress(PermissionError):
        kernel.call(_CAPSET[platform.machine()], header, sets)
        return True
    return False
