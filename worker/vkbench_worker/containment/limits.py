"""What a contained process may use at most, and the privileges of root that it gives up."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

from vkbench_worker.containment import kernel

_FILES: Final = 65536  # open at once
_TASKS: Final = 8192  # processes and threads of the user, root apart
_PR_CAPBSET_DROP: Final = 24
_CAP_DAC_OVERRIDE: Final = 1  # root keeps it: folders of other users may hold the caches
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


def drop_capabilities(machine: str) -> None:
    """Give up root's privileges but the one that opens files whatever their owner."""
    number = _CAPSET.get(machine)
    if os.geteuid() != 0 or number is None:
        return
    with suppress(OSError):  # a container may have taken the right to do so, or there are no more
        for capability in range(64):
            if capability != _CAP_DAC_OVERRIDE:
                kernel.prctl(_PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(_CAPSET_VERSION, 0)
    for kept in (1 << _CAP_DAC_OVERRIDE, 0):
        # effective, permitted, inheritable; then the same for capabilities above 31
        sets = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
        with suppress(PermissionError):  # a container may have taken that one before
            kernel.called(number, header, sets)
            return
