"""Processes whose imports are done: forked from one that has imported what they need.

Imports take more than half of what a short command or service takes. A process of these is one
like any other, with its own environment, files, signals and end; only what it imports was imported
before it began. `python forked.py SOCKET MODULE...` is the process that they are forked from.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

# What is imported before: not what runs as __main__ itself, which would be there twice.
OF_COMMANDS = (
    "sqlalchemy.dialects.sqlite.pysqlite",
    "typer._adapters",
    "vkbench_cli.commands.ask.results",
    "vkbench_cli.commands.measure.run",
    "vkbench_cli.exporting",
    "vkbench_cli.main",
    "vkbench_cli.show.model_profile",
    "vkbench_cli.show.peers",
    "vkbench_db.ask.sql.readonly",
    "vkbench_detection.compare.comparison",
    "vkbench_local.executor",
    "vkbench_scheduler.planning.plan",
)
OF_SERVICES = (
    "planted_runner",
    "vkbench_scheduler.service",
    "vkbench_worker.owner.supervisor",
    "vkbench_worker.service.app",
    "vkbench_worker.service.bundles",
    "vkbench_worker.service.fleet",
    "vkbench_worker.service.sender",
    "sqlalchemy.dialects.postgresql.psycopg",
)
_LONGEST = 1 << 20  # bytes of a request


class Forked(subprocess.Popen[Any]):
    """A process of `python WORDS`, which are `-m MODULE` or `-c CODE` and their own words.

    Its parent is the process that it is forked from, which says how it ended.
    """

    def __init__(self, words: Sequence[str], imported: tuple[str, ...], **options: Any) -> None:
        self._imported = imported
        self._ending: socket.socket | None = None
        super().__init__(words, **options)

    def _execute_child(self, words: Sequence[str], *rest: Any) -> None:
        environ, pipes = rest[5], rest[9:15]
        ends = (pipes[0], pipes[3], pipes[5])
        standard = [own if end == -1 else end for own, end in enumerate(ends)]
        self._ending, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"words": list(words), "environ": dict(environ or os.environ)})
        with theirs:
            origin = _origin(self._imported)
            socket.send_fds(origin, [request.encode()], [*standard, theirs.fileno()])
        self.pid = int(self._ending.recv(16))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._ending and select.select([self._ending], [], [], 0)[0]:
            self._wait(None)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            assert self._ending
            if not select.select([self._ending], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._ending.recv(16))
            self._ending.close()
        return self.returncode


@cache
def _origin(imported: tuple[str, ...]) -> socket.socket:
    """The socket of a process that has imported modules; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, __file__, str(number), *imported]
        process = subprocess.Popen(command, pass_fds=[number])
    atexit.register(process.wait)
    atexit.register(ours.close)  # which comes first, and ends it
    return ours


def _serve(requests: socket.socket) -> list[str]:
    """Fork a process for each request; returns the words of one, in that process."""
    endings: dict[int, socket.socket] = {}  # of processes
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _tell_endings(endings)
        if requests not in ready:
            continue
        request, files, *_ = socket.recv_fds(requests, _LONGEST, 4)
        if not request:
            sys.exit()
        ending = socket.socket(fileno=files.pop())
        if pid := os.fork():
            endings[pid] = ending
            ending.send(str(pid).encode())
            for file in files:
                os.close(file)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for own in (requests, woken, wakes, ending, *endings.values()):
            own.close()
        return _become(json.loads(request), files)


def _tell_endings(endings: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while (status := os.waitpid(-1, os.WNOHANG))[0]:
            with endings.pop(status[0]) as ending, suppress(OSError):  # nobody may ask any more
                ending.send(str(os.waitstatus_to_exitcode(status[1])).encode())


def _become(request: dict[str, Any], files: Sequence[int]) -> list[str]:
    """Take the environment and the standard files that a request names."""
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environ"])
    words: list[str] = request["words"]
    return words


def _run(option: str, what: str, *rest: str) -> None:
    """Do what python does with `-m MODULE` and `-c CODE`."""
    sys.argv = [option, *rest]
    if option == "-c":
        exec(what, {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        import_module(name)
    gc.freeze()
    _run(*_serve(socket.socket(fileno=int(sys.argv[1]))))
