"""What differs between operating systems: locks, processors, how processes end.

No other module asks which system it is for these. Windows and macOS are told apart by what Python
has there; docs/platforms.md says what was tried where.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

IS_LINUX: Final = sys.platform.startswith("linux")
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # what no process can ignore

_PR_SET_PDEATHSIG: Final = 1
_LOOK_SECONDS: Final = 0.05  # between two tries for a lock, where nothing wakes who waits
_WATCH_SECONDS: Final = 1.0  # between two looks whether the parent lives
_SYNCHRONIZE: Final = 0x100000  # the right to wait for the end of a process of Windows
_LOCKED_AT: Final = 1 << 30  # a byte that no file has: what Windows locks cannot be read


def lock(file: IO[Any] | int, *, shared: bool = False, waits: bool = True) -> bool:
    """Lock an open file until it is closed; False if another process has it and `waits` is false.

    Windows has no shared locks here: there, who would share waits for the others.
    """
    handle = file if isinstance(file, int) else file.fileno()
    while not _lock_handle(handle, shared, waits):
        if not waits:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _lock_handle(handle: int, shared: bool, waits: bool) -> bool:
    if sys.platform == "win32":
        msvcrt = importlib.import_module("msvcrt")
        os.lseek(handle, _LOCKED_AT, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
        return True
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def usable_processors() -> int:
    """Processors that this process may use at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def processor_name() -> str:
    """The processor's own name."""
    if IS_LINUX:
        for line in _text(Path("/proc/cpuinfo")).splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.stdout.strip():
            return answer.stdout.strip()
    return platform.processor() or platform.machine()


def free_memory_bytes() -> int:
    """Memory that programs can get at the moment; 0 where the system does not say.

    On Linux that includes the page cache, which the kernel gives up when a program asks for memory.
    """
    for line in _text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError):
        return 0


def end_with(parent: int, number: int = KILL) -> bool:
    """Have this process get a signal when its parent ends; False when that is gone already.

    Linux does it. Elsewhere a thread looks after the parent, and ends this process within a second.
    """
    if IS_LINUX:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        return os.getppid() == parent
    if os.getppid() != parent:
        return False
    watch(parent, number)
    return True


def watch(parent: int, number: int = KILL) -> None:
    """Have a thread end this process by a signal when its parent ends."""
    threading.Thread(target=_outlive, args=(parent, number), daemon=True).start()


def _outlive(parent: int, number: int) -> None:
    if sys.platform == "win32":  # the number of the parent stays what it was
        windows = ctypes.WinDLL("kernel32")
        windows.WaitForSingleObject(windows.OpenProcess(_SYNCHRONIZE, False, parent), -1)
    else:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
    os.kill(os.getpid(), number)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
