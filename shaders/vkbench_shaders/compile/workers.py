"""Compiles many units at once, one for each core, in worker processes or by slangc.

A worker process has a session of the compiler's library, which loads a module once for all of its
units. If the compiler crashes, it ends one worker, and the error names the unit.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import IO

from vkbench.process.interpreter import python
from vkbench_shaders.compile import session
from vkbench_shaders.compile.compiler import FLAGS, CompileError, Compiler, Unit
from vkbench_shaders.compile.tree import source_of

_Outcome = tuple[Unit, bytes] | BaseException
# Not by PYTHONPATH: where pip builds, Python drops from it what an editable installation names.
_START = (
    "import os, runpy, sys\n"
    "sys.path[:0] = sys.argv.pop(1).split(os.pathsep)\n"
    f"runpy.run_module({session.__name__!r}, run_name='__main__', alter_sys=True)"
)


def compile_all(
    slang: Compiler, units: Collection[Unit], tree: Path
) -> Generator[tuple[Unit, bytes], None, None]:
    """Yields each unit with its SPIR-V as soon as it is compiled; raises the first error."""
    backlog, outcomes = Backlog(units), SimpleQueue[_Outcome]()
    count = min(os.cpu_count() or 1, len(units))
    with ThreadPoolExecutor(max(count, 1)) as pool:
        try:
            for _ in range(count):
                pool.submit(_work, slang, tree, backlog, outcomes)
            for _ in units:
                outcome = outcomes.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
        finally:
            backlog.clear()


class Backlog:
    """Units that wait, by module: a worker stays with its module, then takes one not yet begun."""

    def __init__(self, units: Collection[Unit]) -> None:
        self._lock = Lock()
        self._begun: set[str] = set()
        self._waiting: dict[str, deque[Unit]] = {}
        for unit in units:
            self._waiting.setdefault(unit.module, deque()).append(unit)

    def take(self, module: str) -> Unit | None:
        """The next unit for a worker that has loaded a module; None when there are no more."""
        with self._lock:
            if not self._waiting:
                return None
            if module not in self._waiting:
                module = min(self._waiting, key=self._order)
                self._begun.add(module)
            unit = self._waiting[module].popleft()
            if not self._waiting[module]:
                del self._waiting[module]
            return unit

    def clear(self) -> None:
        """Drops all units that wait, so that workers stop."""
        with self._lock:
            self._waiting.clear()

    def _order(self, module: str) -> tuple[bool, int]:
        return module in self._begun, -len(self._waiting[module])


def _work(slang: Compiler, tree: Path, backlog: Backlog, outcomes: SimpleQueue[_Outcome]) -> None:
    module = ""
    try:
        with _compiling(slang, tree) as code_of:
            while unit := backlog.take(module):
                outcomes.put((unit, code_of(unit)))
                module = unit.module
    except BaseException as error:  # raised again where the outcomes are read
        outcomes.put(error)


@contextmanager
def _compiling(slang: Compiler, tree: Path) -> Iterator[Callable[[Unit], bytes]]:
    if slang.library:
        with worker(slang.library, tree.resolve()) as begun:
            yield begun.compile
    else:
        yield partial(slang.compile, tree=tree)


@contextmanager
def worker(library: Path, tree: Path) -> Iterator[CompilerProcess]:
    """Starts a worker for the units of a tree, and ends it after the block."""
    # the worker needs the sources that a wheel's build has put on this process's path, where an
    # empty entry would be the current folder
    path = os.pathsep.join(filter(None, sys.path))
    command = python("-c", _START, path, str(library), *FLAGS, "-I", str(tree))
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors) as process,
    ):
        try:
            yield CompilerProcess(process=process, said=errors, tree=tree)
        finally:
            process.kill()


@dataclass(frozen=True, kw_only=True)
class CompilerProcess:
    """A process with a session of the compiler; one thread at a time may use it."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]  # its stderr
    tree: Path

    def compile(self, unit: Unit) -> bytes:
        """SPIR-V of a unit; CompileError with the compiler's message, or with how it ended."""
        requests, replies = self.process.stdin, self.process.stdout
        assert requests is not None
        assert replies is not None
        source = source_of(unit.module, self.tree)
        request = json.dumps([str(source), unit.entry, unit.arguments])
        with suppress(BrokenPipeError):  # a worker that has ended sends no reply
            os.write(requests.fileno(), request.encode() + b"\n")
        reply = json.loads(replies.readline() or "{}")
        if "refused" in reply:
            raise CompileError(f"{unit.key} does not compile:\n{reply['refused']}")
        code = replies.read(reply.get("bytes", 0))
        if len(code) != reply.get("bytes"):
            raise CompileError(f"{unit.key} does not compile: the compiler {self._end()}")
        return code

    def _end(self) -> str:
        status = self.process.wait()
        self.said.seek(0)
        last = self.said.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        return ": ".join([how, *last])
