"""The processes of peers that a supervisor asks beside its runner: one for each peer, kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from vkbench.case import is_model
from vkbench.job import Job
from vkbench.process.interpreter import python
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_worker.containment import environment
from vkbench_worker.ended import result_of_end
from vkbench_worker.owner.child import Child, NoAnswer
from vkbench_worker.peers.turns import CPU_ROUNDS, Ask, in_turns
from vkbench_worker.protocol import Ready, line_of, read_line

_MODULE: Final = "vkbench_worker.peers.main"


class Peers:
    """Asks peers; a process starts when a job first names it, or after it ended."""

    def __init__(self, settings: Settings, parent: ThreadPoolExecutor) -> None:
        self._settings = settings
        self._parent = parent  # the kernel ends a process with the thread that started it
        self._children: dict[str, Child] = {}

    def in_turns(
        self, job: Job, ready: Ready, ask_runner: Ask, is_over: Callable[[], bool]
    ) -> Result | None:
        """The result of a job of a peer, which takes turns with the runner."""

        def ask_peer(visit: Job) -> Result | None:
            return self._ask(job.variant, visit, ready, is_over)

        is_brief = not is_model(job.case)
        rounds = CPU_ROUNDS if is_brief and ready.facts.type == "cpu" else 1
        return in_turns(job, ask_runner, ask_peer, rounds=rounds)

    def _ask(self, peer: str, job: Job, ready: Ready, is_over: Callable[[], bool]) -> Result | None:
        """A peer's result of a job on a device; None once the job is over for others."""
        began = time.monotonic()
        deadline = began + job.limit_seconds
        try:
            child = self._have_child(peer, ready)
            child.send(line_of(job))
            result = child.answer(job, lambda line: read_line(line, Result), deadline, is_over)
        except NoAnswer as error:
            self._end(peer)
            return result_of_end(job, error.outcome, str(error), began)
        if result is None:
            self._end(peer)  # it would answer in the middle of the next job
        return result

    def close(self) -> None:
        """End the processes of all peers."""
        for peer in list(self._children):
            self._end(peer)

    def _have_child(self, peer: str, ready: Ready) -> Child:
        if peer not in self._children:
            command = python("-m", _MODULE, "--peer", peer, "--parent", str(os.getpid()))
            given = (command, environment.of(self._settings))
            self._children[peer] = self._parent.submit(Child, *given).result()
            self._children[peer].send(line_of(ready))
        return self._children[peer]

    def _end(self, peer: str) -> None:
        with suppress(OSError):
            self._children.pop(peer).close()
