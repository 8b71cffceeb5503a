"""A seccomp filter: system calls that no driver needs, and strangers' code could misuse.

A list of what is refused, since nobody knows all that drivers call. Files are Landlock's affair.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Iterable
from typing import Final

from vkbench_worker.containment import kernel

# Refused whatever their arguments: numbers on x86_64 and aarch64; -1: it has no such call.
REFUSED: Final = {
    # the network, and services of this machine behind Unix sockets
    "socket": (41, 198),
    # memory and files of other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # leaving the group in which the supervisor kills all that a runner started
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # keys
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # other views of the files
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "truncate": (76, 45),  # by path: versions 1 and 2 of Landlock do not guard it
    # parts of the kernel that are large, young or often broken
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "modify_ldt": (154, -1),
    # the machine itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
}
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)  # its flags lie in memory, where a filter cannot look
_SOCKETPAIR: Final = (53, 199)
_PRLIMIT: Final = (302, 261)
_PROCESSORS: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH

_NAMESPACES: Final = 0x7E020000  # CLONE_NEW*
_UNIX: Final = 1
_EPERM, _ENOSYS = 1, 38
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERROR: Final = 0x00050000
_X32: Final = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _PROCESSOR, _FIRST = 0, 4, 16  # offsets in seccomp_data; of the first argument's low half
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
    code = b"".join(struct.pack("<HBBI", *each) for each in program(column, processor))
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
    numbers = [each[column] for each in REFUSED.values()]
    steps += _whole((number for number in numbers if number >= 0), _EPERM)
    steps += _whole([_CLONE3[column]], _ENOSYS)  # the C library then takes `clone`
    steps += _by_argument(_CLONE[column], (_ANY_BIT, 0, 1, _NAMESPACES))
    steps += _by_argument(_SOCKETPAIR[column], (_EQUAL, 1, 0, _UNIX))
    steps += _by_argument(_PRLIMIT[column], (_EQUAL, 1, 0, 0))  # of this process alone
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _whole(numbers: Iterable[int], error: int) -> Iterable[Instruction]:
    for number in numbers:
        yield from ((_EQUAL, 0, 1, number), _error(error))


def _by_argument(number: int, refused_if: Instruction) -> list[Instruction]:
    """A call that is refused where its first argument takes the next step, the refusal."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST),
        refused_if,
        _error(_EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)
