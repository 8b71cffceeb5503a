"""Landlock: this process sees only the files that it names here, for ever.

It needs no privilege. Each version of the kernel's interface guards more; Linux documents them in
Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from enum import IntFlag
from pathlib import Path
from typing import Final

from vkbench_worker.containment import kernel

_CREATE_RULESET: Final = 444  # of every processor
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NETWORK: Final = 0x3  # bind and connect TCP sockets
_SCOPE: Final = 0x3  # abstract Unix sockets and signals of processes outside
NETWORK_ABI: Final = 4
SCOPE_ABI: Final = 6
_NEWEST_ABI: Final = 6  # later ones guard nothing that this module knows


class Access(IntFlag):
    """Linux's constants LANDLOCK_ACCESS_FS_*: what a process may do with files."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ: Final = Access.EXECUTE | Access.READ_FILE | Access.READ_DIR
# What is written can neither be executed nor lead elsewhere by a symbolic link.
WRITE: Final = (
    Access.READ_FILE
    | Access.READ_DIR
    | Access.WRITE_FILE
    | Access.TRUNCATE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.REFER
)
# of files that are there
CHANGE: Final = Access.READ_FILE | Access.READ_DIR | Access.WRITE_FILE | Access.TRUNCATE
DEVICE: Final = CHANGE | Access.IOCTL_DEV
SHARED: Final = DEVICE | Access.MAKE_REG | Access.REMOVE_FILE
_OF_FILES: Final = (
    Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
)
# Newest access right of each version.
_LAST: Final = {
    1: Access.MAKE_SYM,
    2: Access.REFER,
    3: Access.TRUNCATE,
    4: Access.TRUNCATE,
    5: Access.IOCTL_DEV,
    6: Access.IOCTL_DEV,
}


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The version of the kernel's interface; 0 where there is none or it is switched off."""
    return max(0, kernel.try_call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def restrict(rules: Iterable[tuple[Path, Access]], abi: int) -> None:
    """Leave this thread, and what it starts, the rules' accesses alone; needs no_new_privs."""
    handled = _rights_handled_by(abi)
    ruleset = _Ruleset(
        fs=handled,
        net=_NETWORK if abi >= NETWORK_ABI else 0,
        scoped=_SCOPE if abi >= SCOPE_ABI else 0,
    )
    words = 1 + (abi >= NETWORK_ABI) + (abi >= SCOPE_ABI)
    made = kernel.call(_CREATE_RULESET, ctypes.byref(ruleset), 8 * words, 0)
    try:
        for path, access in rules:
            with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                _allow(made, path, access & handled)
        kernel.call(_RESTRICT_SELF, made, 0)
    finally:
        os.close(made)


def _rights_handled_by(abi: int) -> int:
    return 2 * int(_LAST[min(abi, _NEWEST_ABI)]) - 1


def _allow(ruleset: int, path: Path, access: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _OF_FILES
        rule = _Beneath(allowed=access, parent=place)
        kernel.call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)
