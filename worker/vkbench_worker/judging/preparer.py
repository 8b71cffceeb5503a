"""A process that prepares cases beside the runner; the runner stops it while it times a job.

    python -m vkbench_worker.judging.preparer SOCKET PARENT

It is no thread, because nothing can stop a thread in the middle of numpy's work, and nothing may
work beside a device that is being timed. Prepared arrays come in memory that both processes map,
small ones apart: a mapping keeps its file open, and a process may have no more than 1024 of these.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from vkbench.job import Source
from vkbench.messages import wire
from vkbench.process import system
from vkbench.process.interpreter import python
from vkbench_shaders import catalogue
from vkbench_worker.judging.preparation import Prepared, prepare

_LONGEST: Final = 1 << 16  # bytes of a message
_ALIGNMENT: Final = 64  # of arrays in shared memory
_LEAST_MAPPED: Final = 4 << 20  # bytes of a case: a shelf and what waits for it have few such ones
_LIBRARIES: Final = ("OMP", "OPENBLAS", "MKL")  # that numpy may multiply matrices with


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a preparer is asked for: a case, with all that an arithmetic path's limits look at."""

    case: str
    source: Source | None
    path: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a pickled case lies in the memory that comes with it; its arrays are apart from it.

    Nothing lies there, and no memory comes, when a preparer is new or could not prepare a case.
    """

    sizes: tuple[int, ...] = ()


class Preparer:
    """A preparer process as the runner sees it; it multiplies matrices with so many threads."""

    def __init__(self, threads: int) -> None:
        self.making = ""  # name of the case at hand
        self.is_idle = False  # not until it has loaded what it needs
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                python("-m", __name__, str(theirs.fileno()), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                stdout=2,  # a runner's stdout is for its answers
                pass_fds=[theirs.fileno()],
                env={
                    **os.environ,
                    **{f"{library}_NUM_THREADS": str(threads) for library in _LIBRARIES},
                },
            )

    @property
    def pid(self) -> int:
        """The id of the process that prepares."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether the preparer's process has ended."""
        return self._socket.fileno() < 0

    def ask(self, request: Request) -> None:
        """Have the preparer, if idle, prepare a case."""
        self.making, self.is_idle = request.case, False
        with suppress(OSError):  # it has ended, which the wait for its answer finds
            self._socket.send(wire.encode(request))

    def answer(self, *, wait: bool = False) -> Prepared | None:
        """The case that was prepared; None if it could not be, or if there is no answer yet."""
        self._socket.setblocking(wait)  # recv_fds takes flags and ignores them
        try:
            message, files, *_ = socket.recv_fds(self._socket, _LONGEST, 1)
        except BlockingIOError:
            return None
        except OSError:
            message, files = b"", []
        finally:
            self._socket.setblocking(True)
        self.making, self.is_idle = "", bool(message)
        if not message:
            self.close()
        return _read_case(files[0], wire.decode(message, Answer)) if files else None

    def stop(self) -> None:
        """Stop the process; it stands still when this returns."""
        if self.is_idle or self.is_gone:
            return
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let the stopped process work again."""
        if not self.is_gone:
            os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the process; closing twice is fine."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _read_case(file: int, answer: Answer) -> Prepared:
    """A case that lies in the memory of a file descriptor, which is closed."""
    total = sum(map(_align_size, answer.sizes))
    try:
        is_small = total < _LEAST_MAPPED
        memory = os.pread(file, total, 0) if is_small else mmap.mmap(file, 0, prot=mmap.PROT_READ)
    finally:
        os.close(file)
    whole, at, parts = memoryview(memory), 0, []
    for size in answer.sizes:
        parts.append(whole[at : at + size])
        at += _align_size(size)
    pickled, *arrays = parts
    prepared = pickle.loads(pickled, buffers=arrays)
    assert isinstance(prepared, Prepared)
    return prepared


def _store_case(prepared: Prepared) -> tuple[int, Answer]:
    """A file descriptor of memory with a case in it, and how it lies there."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(prepared, protocol=5, buffer_callback=arrays.append)
    parts: Sequence[memoryview] = [memoryview(pickled), *(array.raw() for array in arrays)]
    file = os.memfd_create("prepared")
    os.ftruncate(file, sum(_align_size(part.nbytes) for part in parts))
    with mmap.mmap(file, 0) as memory:
        at = 0
        for part in parts:
            memory[at : at + part.nbytes] = part
            at += _align_size(part.nbytes)
    return file, Answer(sizes=tuple(part.nbytes for part in parts))


def _align_size(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def main(file: int, parent: int) -> None:
    """Prepare what is asked for until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not system.end_with(parent):
        return
    with socket.socket(fileno=file) as asker:
        asker.send(wire.encode(Answer()))
        while message := asker.recv(_LONGEST):
            _serve(asker, wire.decode(message, Request))


def _serve(asker: socket.socket, request: Request) -> None:
    try:
        problem = catalogue.problem(request.case)
        memory, answer = _store_case(prepare(problem, request.source, request.path))
    except Exception:  # the runner meets it too, in the job's own turn, and says so
        asker.send(wire.encode(Answer()))
        return
    socket.send_fds(asker, [wire.encode(answer)], [memory])
    os.close(memory)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
