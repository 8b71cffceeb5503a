"""Calls of the Linux kernel that Python has no function for."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Final

from vkbench.process import system

_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


@cache
def _libc() -> ctypes.CDLL:
    """The C library of this process, which has these calls on Linux alone."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def try_call(number: int, *arguments: Any) -> int:
    """The answer of a system call; negative where the kernel refuses or does not know it."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *words))


def call(number: int, *arguments: Any) -> int:
    """The answer of a system call; OSError where the kernel refuses it."""
    return _check_answer(try_call(number, *arguments))


def prctl(option: int, *arguments: Any) -> int:
    """`prctl` with zeros for what is not given; OSError where the kernel refuses it."""
    given = [*arguments, 0, 0, 0, 0][:4]
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in given]
    return _check_answer(int(_libc().prctl(option, *words)))


def unshare(namespaces: int) -> None:
    """Give this process namespaces of its own; OSError where the kernel refuses them."""
    _check_answer(int(_libc().unshare(namespaces)))


def mount(source: bytes, target: bytes, kind: bytes, flags: int) -> None:
    """Mount a file system; OSError where the kernel refuses it."""
    _check_answer(int(_libc().mount(source, target, kind, ctypes.c_ulong(flags), None)))


def hide() -> None:
    """Keep other processes of this user from reading this one's memory and environment."""
    if system.IS_LINUX:
        prctl(_PR_SET_DUMPABLE, 0)


def forgo_privileges() -> None:
    """Get no privilege by running a program that would give some, from now on."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _check_answer(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
