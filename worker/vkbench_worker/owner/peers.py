"""The processes of peers that a supervisor asks beside its runner: one for each peer, kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from vkbench.case import is_model
from vkbench.job import Job, Outcome
from vkbench.messages import wire
from vkbench.process.interpreter import python
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_worker.containment import environment
from vkbench_worker.ended import ended
from vkbench_worker.owner.child import Babble, Child, Gone, Silence
from vkbench_worker.peers.turns import CPU_ROUNDS, Ask, in_turns
from vkbench_worker.protocol import Ready, line_of, read_line

_LOOK_SECONDS: Final = 0.25  # between looks whether the job is still wanted
_MODULE: Final = "vkbench_worker.peers.main"


class Peers:
    """Asks peers; a process starts when a job first names it, or after it ended."""

    def __init__(self, settings: Settings, parent: ThreadPoolExecutor) -> None:
        self._settings = settings
        self._parent = parent  # the kernel ends a process with the thread that started it
        self._children: dict[str, Child] = {}

    def in_turns(
        self, job: Job, ready: Ready, ours: Ask, is_over: Callable[[], bool]
    ) -> Result | None:
        """The result of a job of a peer; `ours` has the runner answer."""

        def theirs(visit: Job) -> Result | None:
            return self._answer(job.variant, visit, ready, is_over)

        is_brief = not is_model(job.case)
        rounds = CPU_ROUNDS if is_brief and ready.facts.type == "cpu" else 1
        return in_turns(job, ours, theirs, rounds=rounds)

    def _answer(
        self, peer: str, job: Job, ready: Ready, is_over: Callable[[], bool]
    ) -> Result | None:
        """A peer's result of a job on a device; None once the job is over for others."""
        began = time.monotonic()
        end = began + job.limit_seconds
        try:
            child = self._child(peer, ready)
            child.send(line_of(job))
            while not is_over():
                with suppress(Silence):
                    line = child.line(min(end, time.monotonic() + _LOOK_SECONDS))
                    return read_line(line, Result)
                if time.monotonic() >= end:
                    self._drop(peer)
                    reason = f"no answer within {job.limit_seconds:g} s"
                    return ended(job, Outcome.TIMED_OUT, reason, began)
        except Gone:
            _, words = self._children[peer].cause_of_death()
            self._drop(peer)
            return ended(job, Outcome.CRASHED, words, began)
        except (Babble, wire.MalformedMessage) as error:
            self._drop(peer)
            return ended(job, Outcome.ERROR, f"it sent an invalid line: {error}", began)
        self._drop(peer)  # it would answer in the middle of the next job
        return None

    def close(self) -> None:
        """End all of them."""
        for peer in list(self._children):
            self._drop(peer)

    def _child(self, peer: str, ready: Ready) -> Child:
        if peer not in self._children:
            command = python("-m", _MODULE, "--peer", peer, "--parent", str(os.getpid()))
            given = (command, environment.of(self._settings))
            self._children[peer] = self._parent.submit(Child, *given).result()
            self._children[peer].send(line_of(ready))
        return self._children[peer]

    def _drop(self, peer: str) -> None:
        with suppress(OSError):
            self._children.pop(peer).close()
