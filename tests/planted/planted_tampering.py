"""Tries to change what lies outside of a contained process, and prints as JSON how that ended.

    python -m vkbench_worker.containment.enter planted_tampering OUTSIDE READABLE NAME MEMORY PARENT

OUTSIDE is a folder of the test, of which nothing is granted, and READABLE a file that may be read.
NAME is in the names of what else the test has: a file in /dev/shm, a socket, a queue. MEMORY is the
number of memory that PARENT, the test's process, shares.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vkbench.process.interpreter import python
from vkbench.settings import settings

IS_X86 = os.uname().machine == "x86_64"
SHARED = Path("/dev/shm")
_libc = ctypes.CDLL(None, use_errno=True)
_HERE = -100  # AT_FDCWD
_GET_FLAGS, _SET_FLAGS, _NO_DATES = 0x80086601, 0x40086602, 0x80
_TYPE_AS_USER = 0x5412  # TIOCSTI


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is tampered with."""

    outside: Path
    readable: Path
    name: str
    memory: int
    parent: int

    @property
    def file(self) -> bytes:
        """The path of somebody's file."""
        return bytes(self.outside / "program")

    @property
    def shared(self) -> Path:
        """Memory that another process shares with its own."""
        return SHARED / self.name


Attempt = Callable[[Target], object]


def call(x86: int, arm: int, *arguments: object) -> int:
    """The answer of a system call by its number on each processor; OSError where it is refused."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    answer = _libc.syscall(ctypes.c_long(x86 if IS_X86 else arm), *words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(answer)


def by_file(change: Callable[[int], object]) -> Attempt:
    """The change of a file that is open for reading."""

    def tried(target: Target) -> None:
        handle = os.open(target.readable, os.O_RDONLY)
        try:
            change(handle)
        finally:
            os.close(handle)

    return tried


def set_flags(handle: int) -> None:
    flags = fcntl.ioctl(handle, _GET_FLAGS, bytes(8))
    fcntl.ioctl(handle, _SET_FLAGS, struct.pack("q", struct.unpack("q", flags)[0] | _NO_DATES))


def set_attributes(target: Target) -> None:
    """file_setattr of Linux 6.17."""
    no_dates = struct.pack("QIIII", 0x40, 0, 0, 0, 0)
    call(469, 469, _HERE, target.file, no_dates, len(no_dates), 0)


def open_by_number(target: Target) -> None:
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136), ctypes.c_int()
    call(303, 264, _HERE, target.file, handle, ctypes.byref(mount), 0)
    folder = os.open(target.outside, os.O_PATH)
    os.close(call(304, 265, folder, handle, os.O_RDONLY))


def send(address: str | bytes) -> None:
    """Send to a socket that has a name, from a pair of one's own."""
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"from the sandbox", address)


def attach_memory(target: Target) -> None:
    """Memory of System V, by its number."""
    call(30, 196, target.memory, 0, 0)


def make_memory(target: Target) -> None:
    """The same without a key: what this process makes, another could use."""
    call(31, 195, call(29, 194, 0, 4096, 0o600), 0, 0)  # IPC_PRIVATE, IPC_RMID


def make_queue(target: Target) -> None:
    os.close(call(240, 180, target.name.encode(), os.O_CREAT | os.O_RDWR, 0o600, 0))
    call(241, 181, target.name.encode())


def call_as_i386(target: Target) -> None:
    """`getpid` by the gate of 32-bit programs, whose calls have other numbers."""
    if not IS_X86:
        raise PermissionError(1, "no such gate")
    child = os.fork()
    if child == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
        at = ctypes.addressof(ctypes.c_char.from_buffer(code))
        os._exit(ctypes.CFUNCTYPE(ctypes.c_int)(at)() != os.getpid())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGSYS:
        raise PermissionError(1, "killed")
    if status:
        raise OSError(38, f"ended with {status}")


# What contained code tries, by what it would be.
ATTEMPTS: dict[str, Attempt] = {
    "makes a file setuid": lambda to: os.chmod(to.file, 0o4755),
    "makes a file setuid by fchmodat2": lambda to: call(452, 452, _HERE, to.file, 0o4755, 0),
    "makes an open file setuid": by_file(lambda file: os.fchmod(file, 0o4755)),
    "opens a file to all by a path of a file": by_file(
        lambda file: os.chmod(f"/proc/self/fd/{file}", 0o666)
    ),
    "gives a file away": lambda to: os.chown(to.file, os.getuid(), os.getgid()),
    "gives an open file away": by_file(lambda file: os.fchown(file, os.getuid(), os.getgid())),
    "gives a link away": lambda to: os.lchown(to.file, os.getuid(), os.getgid()),
    "changes the dates of a file": lambda to: os.utime(to.file, (1, 1)),
    "changes the dates of an open file": by_file(lambda file: os.utime(file, (1, 1))),
    "gives a file an attribute": lambda to: os.setxattr(to.file, "user.mine", b"1"),
    "gives an open file an attribute": by_file(lambda f: os.setxattr(f, "user.mine", b"1")),
    "takes an attribute away": lambda to: os.removexattr(to.file, "user.kept"),
    "changes the flags of an open file": by_file(set_flags),
    "changes the flags of a file": set_attributes,
    "opens a file by its number": open_by_number,
    "links a file": lambda to: os.link(to.file, settings().data / "locks" / "linked"),
    "moves a file": lambda to: os.rename(to.outside / "moved", settings().data / "locks" / "moved"),
    "makes a pipe with a name": lambda to: os.mkfifo(settings().data / "locks" / "pipe"),
    "makes a device": lambda to: os.mknod(
        settings().data / "locks" / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3)
    ),
    "reads another's shared memory": lambda to: to.shared.read_bytes(),
    "overwrites another's shared memory": lambda to: to.shared.open("r+b").write(b"mine"),
    "removes another's shared memory": lambda to: to.shared.with_suffix(".removed").unlink(),
    "attaches another's memory": attach_memory,
    "makes memory that others can attach": make_memory,
    "makes a queue of messages": make_queue,
    "sends to a socket by its path": lambda to: send(str(to.outside / "socket")),
    "sends to a socket by its abstract name": lambda to: send(b"\0" + to.name.encode()),
    "types into the terminal": lambda to: fcntl.ioctl(0, _TYPE_AS_USER, b"x"),
    "calls the kernel as i386": call_as_i386,
    "calls the kernel as x32": lambda to: call(0x40000000 + 39, 0x40000000 + 39),
}


# What needs the user of the other process, or root.
OF_ROOT: dict[str, Attempt] = {
    "signals the worker": lambda to: os.kill(to.parent, signal.SIGCONT),
    "moves the worker to another processor": lambda to: os.sched_setaffinity(
        to.parent, os.sched_getaffinity(to.parent)
    ),
    "lowers the worker's priority": lambda to: os.setpriority(
        os.PRIO_PROCESS, to.parent, os.getpriority(os.PRIO_PROCESS, to.parent)
    ),
}


def main() -> None:
    """Try all of it."""
    outside, readable, name, memory, parent = sys.argv[1:]
    target = Target(
        outside=Path(outside),
        readable=Path(readable),
        name=name,
        memory=int(memory),
        parent=int(parent),
    )
    print(json.dumps({"ends": ends_of({**ATTEMPTS, **OF_ROOT}, target), **facts()}))


def ends_of(attempts: Mapping[str, Attempt], target: Target) -> dict[str, str]:
    """How each attempt ended."""
    ends = {}
    for name, attempt in attempts.items():
        try:
            attempt(target)
            ends[name] = "done"
        except OSError as error:
            ends[name] = os.strerror(error.errno or 0)
    return ends


def facts() -> dict[str, object]:
    """Who this process is, and what it can do as it should."""
    child = subprocess.run(python("-c", "import numpy"), stderr=subprocess.PIPE)
    with suppress(OSError):
        (SHARED / "ours").write_text("shared with what this process starts")
    return {
        "user": os.getresuid(),
        "group": os.getresgid(),
        "shared": [path.name for path in SHARED.iterdir()] if os.access(SHARED, os.R_OK) else None,
        "child": child.stderr.decode(),
    }


if __name__ == "__main__":
    main()
