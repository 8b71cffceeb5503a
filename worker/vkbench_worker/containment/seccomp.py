"""A seccomp filter: the kernel refuses system calls to this process and what it starts."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from vkbench_worker.containment import calls, kernel

_PROCESSORS: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH

_EPERM, _ENOSYS = 1, 38
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERROR: Final = 0x00050000
_X32: Final = 0x40000000
_LOAD, _MASK, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
# offsets in seccomp_data; of the low halves of the first two arguments
_NUMBER, _PROCESSOR, _FIRST, _SECOND = 0, 4, 16, 24
_PR_GET_SECCOMP, _PR_SET_SECCOMP, _FILTER = 21, 22, 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Whether this kernel and processor have what `restrict` needs."""
    if platform.machine() not in _PROCESSORS:
        return False
    try:
        return kernel.prctl(_PR_GET_SECCOMP) >= 0
    except OSError:
        return False


def restrict() -> None:
    """Have the kernel refuse the calls to this thread and what it starts; needs no_new_privs."""
    column, processor = _PROCESSORS[platform.machine()]
    code = b"".join(
        struct.pack("<HBBI", *instruction) for instruction in program(column, processor)
    )
    kernel.prctl(
        _PR_SET_SECCOMP,
        _FILTER,
        ctypes.byref(_Program(length=len(code) // 8, filter=code)),
    )


def program(column: int, processor: int) -> list[Instruction]:
    """The filter for a column of `REFUSED` and its processor."""
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _PROCESSOR),
        (_EQUAL, 1, 0, processor),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if column == 0:
        steps += [(_AT_LEAST, 0, 1, _X32), _error(_ENOSYS)]
    numbers = [call[column] for call in calls.REFUSED.values()]
    # First the calls that drivers make often; the kernel knows by itself which numbers go through.
    steps += _where(calls.IOCTL[column], _commands())
    steps += _refuse_calls((number for number in numbers if number >= 0), _EPERM)
    steps += _refuse_calls([calls.CLONE3[column]], _ENOSYS)  # the C library then takes `clone`
    steps += _where(calls.CLONE[column], _unless((_ANY_BIT, 0, 1, calls.NAMESPACES)))
    steps += _where(calls.SOCKETPAIR[column], _pairs())
    # of this process alone
    steps += _where(calls.PRLIMIT[column], _unless((_EQUAL, 1, 0, 0)))
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _refuse_calls(numbers: Iterable[int], error: int) -> Iterable[Instruction]:
    """Refuse whatever is loaded if it is one of these."""
    for number in numbers:
        yield from ((_EQUAL, 0, 1, number), _error(error))


def _where(number: int, steps: Sequence[Instruction]) -> list[Instruction]:
    """Allow a call of this number if it passes these instructions."""
    return [(_EQUAL, 0, len(steps) + 1, number), *steps, (_RETURN, 0, 0, _ALLOW)]


def _unless(refused_if: Instruction) -> list[Instruction]:
    """Refuse a call whose first argument passes a test."""
    return [(_LOAD, 0, 0, _FIRST), refused_if, _error(_EPERM)]


def _commands() -> list[Instruction]:
    """Refuse an `ioctl` of a terminal's input or of a file system."""
    return [
        (_LOAD, 0, 0, _SECOND),
        *_refuse_calls(calls.TERMINALS, _EPERM),
        (_MASK, 0, 0, calls.COMMAND_TYPE),
        *_refuse_calls((kind << 8 for kind in calls.FILE_SYSTEMS), _EPERM),
    ]


def _pairs() -> list[Instruction]:
    """Refuse a `socketpair` that is not of Unix sockets, or that could send elsewhere."""
    stream, packets = calls.PAIRS
    return [
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, calls.UNIX),
        _error(_EPERM),
        (_LOAD, 0, 0, _SECOND),
        (_MASK, 0, 0, calls.SOCKET_TYPE),
        (_EQUAL, 2, 0, stream),
        (_EQUAL, 1, 0, packets),
        _error(_EPERM),
    ]


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)
