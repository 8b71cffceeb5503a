"""Tries what a contained process must not do, and prints as JSON how each attempt ended.

    python -m vkbench_worker.containment.enter planted_escape PARENT ADDRESS FOLDER

FOLDER is of the test: nothing there is granted. ADDRESS is a port of this machine that listens.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from vkbench.settings import settings

_libc = ctypes.CDLL(None, use_errno=True)


def attempts(parent: int, port: int, folder: Path) -> dict[str, Callable[[], object]]:
    """What is tried, by name; each raises OSError when it is refused."""
    locks = settings().data / "locks"
    bundles = settings().cache / "bundles"
    return {
        "connects": lambda: socket.create_connection(("127.0.0.1", port), 2).close(),
        "asks a service by a Unix socket": lambda: _ask(folder / "socket"),
        "reads its parent's variables": Path(f"/proc/{parent}/environ").read_bytes,
        "opens its parent's memory": lambda: Path(f"/proc/{parent}/mem").open("rb").close(),
        "copies its parent's memory": lambda: _copy(parent),
        "traces its parent": lambda: _call(101 if _is_x86() else 117, 0x4206, parent, 0, 0),
        "signals its parent": lambda: os.kill(parent, signal.SIGCONT),
        "limits its parent": lambda: resource.prlimit(
            parent, resource.RLIMIT_CORE, resource.prlimit(parent, resource.RLIMIT_CORE)
        ),
        "writes its own memory": lambda: Path("/proc/self/mem").open("r+b").close(),
        "sets its own memory score": lambda: _rewrite(Path("/proc/self/oom_score_adj")),
        "sets its parent's memory score": lambda: _rewrite(Path(f"/proc/{parent}/oom_score_adj")),
        "reads the database": (settings().data / "vkbench.db").read_bytes,
        "reads another's file": (folder / "secret").read_bytes,
        "lists another's folder": lambda: os.listdir(folder),
        "writes another's file": lambda: (folder / "secret").write_bytes(b"mine"),
        "cuts another's file": lambda: os.truncate(folder / "kept", 0),
        "removes another's file": (folder / "removed").unlink,
        "makes a file of its own": lambda: (folder / "made").write_bytes(b""),
        "changes the code of vkbench": lambda: Path(__file__).with_name("planted_made.py").touch(),
        "changes a bundle": lambda: _write(bundles / "changed"),
        "leads a lock elsewhere": lambda: (locks / "link").symlink_to(folder / "secret"),
        "runs what it wrote": lambda: _run(locks / "program"),
        "fills the disk": lambda: os.truncate(_large(locks / "large"), 1 << 50),
        "leaves its group": os.setsid,
        "opens a terminal": lambda: Path("/dev/ptmx").open("wb").close(),
        "makes a ring of io_uring": lambda: _call(425, 8, ctypes.create_string_buffer(256)),
    }


def _ask(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def _copy(parent: int) -> None:
    """Refused for want of rights, not because nothing lies at an address."""
    here = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(here), 8)
    there = (ctypes.c_size_t * 2)(_mapped(parent), 8)
    _call(310 if _is_x86() else 270, parent, vector, 1, there, 1, 0)


def _mapped(process: int) -> int:
    """An address that a process has; this one's own where it may not look."""
    try:
        return int(Path(f"/proc/{process}/maps").read_text().partition("-")[0], 16)
    except OSError:
        return ctypes.addressof(ctypes.create_string_buffer(mmap.PAGESIZE))


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _rewrite(path: Path) -> None:
    path.write_text(path.read_text())


def _run(program: Path) -> None:
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    os.waitpid(os.posix_spawn(program, [str(program)], {}), 0)


def _large(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def _call(number: int, *arguments: object) -> None:
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    if _libc.syscall(ctypes.c_long(number), *words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _is_x86() -> bool:
    return os.uname().machine == "x86_64"


def _name_thread() -> str:
    """The name of a thread to which another one gave it, as CUDA does for its own."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        name = Path(f"/proc/self/task/{thread.native_id}/comm")
        name.write_text("planted")
        return name.read_text().strip()
    finally:
        ended.set()


def main() -> None:
    """Try all of it, the parent's memory last."""
    ends = {}
    for name, attempt in attempts(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])).items():
        try:
            attempt()
            ends[name] = "done"
        except OSError as error:
            ends[name] = os.strerror(error.errno or 0)
    said = {"ends": ends, "variables": dict(os.environ), "thread": _name_thread()}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
