"""The processes of other programs that a supervisor asks beside its runner, each of them kept.

A peer has one, and each build under test. All are contained as a runner is: a peer's libraries are
those of this host, a build comes from anybody.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from vkbench.case import is_model
from vkbench.errors import VkbenchError
from vkbench.job import SETTLED, Arm, Job, Outcome
from vkbench.peers import BY_NAME
from vkbench.process.interpreter import python
from vkbench.programs.build import Build
from vkbench.programs.program import GGML, Program
from vkbench.programs.registry import ProgramStore
from vkbench.programs.store import BuildStore, list_linked
from vkbench.result import HOT, Result
from vkbench.settings import Settings
from vkbench_worker.containment import environment
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.ended import result_of_end
from vkbench_worker.owner.child import Child, NoAnswer
from vkbench_worker.peers.llama_cpp.api import PEER
from vkbench_worker.peers.llama_cpp.program import places_read
from vkbench_worker.peers.turns import Ask, in_turns, pair_arms, rounds_on
from vkbench_worker.protocol import LET_GO, Ready, line_of, read_line, visit_line

ProgramOf = Callable[[Build], Program]  # of a build, as it was declared

_MODULE: Final = "vkbench_worker.peers.main"
# ends of a pair that may be due to what the other build keeps on the device
_MEMORY_MAY_LACK: Final = (Outcome.SKIPPED, Outcome.ERROR, Outcome.CRASHED)


class Peers:
    """Asks peers and builds; a process starts when a job first needs it, or after it ended."""

    def __init__(
        self, settings: Settings, parent: ThreadPoolExecutor, program_of: ProgramOf | None = None
    ) -> None:
        self._settings = settings
        self._parent = parent  # the kernel ends a process with the thread that started it
        self._builds = BuildStore(settings.build_folder())
        programs = ProgramStore(settings.program_folder())
        self._program_of = program_of or (lambda build: programs.find(build.program))
        self._children: dict[str, Child] = {}  # by the peer's name, or what `_name_process` says
        self._met: dict[str, set[str]] = defaultdict(set)  # cases that a process was asked for

    def in_turns(
        self, job: Job, ready: Ready, ask_runner: Ask, is_over: Callable[[], bool]
    ) -> Result | None:
        """The result of a job of a peer, which takes turns with the runner."""

        name = _name_process(job.variant, job)
        for other in self._children.keys() - {name}:
            if other.split(" ")[0] == job.variant:  # it may read another model
                self._end(other)

        def ask_peer(visit: Job) -> Result | None:
            return self._ask(name, partial(self._peer_command, job), visit, ready, is_over)

        rounds = 1 if is_model(job.case) else rounds_on(ready.facts)
        return in_turns(job, ask_runner, ask_peer, rounds=rounds)

    def do_builds(self, job: Job, ready: Ready, is_over: Callable[[], bool]) -> Result | None:
        """The result of a job of a build, or of a pair of them, which take turns.

        Processes of other builds end: each holds a part of the device's memory.
        """
        wanted = {_name_process(sha, job) for sha in job.builds}
        is_new = len(wanted) > 1 and any(job.case not in self._met[name] for name in wanted)
        for name in self._children.keys() - {*wanted, *BY_NAME}:
            self._end(name)
        if not job.pair:
            return self._ask_build(job.arm, job, ready, is_over)
        if job.pair.metric != HOT:
            began = time.monotonic()
            return result_of_end(job, Outcome.SKIPPED, "a build is timed hot alone", began)
        result = self._pair_builds(job, ready, is_over, is_new=is_new, keeps=True)
        if result is None or result.outcome not in _MEMORY_MAY_LACK:
            return result
        return self._pair_builds(job, ready, is_over, is_new=False, keeps=False)

    def _pair_builds(
        self, job: Job, ready: Ready, is_over: Callable[[], bool], *, is_new: bool, keeps: bool
    ) -> Result | None:
        """The result of a pair; both builds may keep what they checked from visit to visit."""
        ask = partial(self._ask_build, ready=ready, is_over=is_over, keeps=keeps)
        try:
            return pair_arms(job, ask, ready.facts, is_new=is_new and not is_model(job.case))
        finally:
            for sha in job.builds:
                if child := self._children.get(_name_process(sha, job)):
                    child.send_now(LET_GO)

    def _ask_build(
        self, arm: Arm, job: Job, ready: Ready, is_over: Callable[[], bool], *, keeps: bool = False
    ) -> Result | None:
        """A build's result of a job: it checks and times the case by itself."""
        began = time.monotonic()
        visit = replace(job, hot_only=True)
        try:
            command = partial(self._build_command, arm.name, job)
            name = _name_process(arm.name, job)
            result = self._ask(name, command, visit, ready, is_over, keeps=keeps)
        except VkbenchError as error:
            return result_of_end(job, Outcome.ERROR, str(error), began)
        return result and replace(result, variant=job.variant, kernel_sha=arm.name, bundle=arm.name)

    def _peer_command(self, job: Job) -> Sequence[str]:
        """The command of a peer's process, which reads its libraries and the job's model."""
        reads = places_read(self._settings) if job.variant == PEER else []
        arguments = ("--peer", job.variant, "--parent", str(os.getpid()))
        return contained_command(_MODULE, *arguments, reads=[*reads, *_model_files(job)])

    def _build_command(self, sha: str, job: Job) -> Sequence[str]:
        """The command of a build's process; its files are laid out, and what they were.

        It may read the file of the job's model, which the build's own llama-bench is given.
        """
        build = self._builds.find(sha)
        folder = self._builds.lay_out(build)
        program = self._program_of(build)
        arguments = ("--peer", program.adapter, "--folder", str(folder))
        parent = ("--parent", str(os.getpid()))
        if program.adapter == GGML:
            reads = [folder, *list_linked(folder), *_model_files(job)]
            return contained_command(_MODULE, *arguments, *parent, reads=reads)
        # our own process, which starts the program contained and judges what it answers
        declared = msgspec.json.encode(replace(program, build=None, cases=None)).decode()
        return python("-m", _MODULE, *arguments, "--program", declared, *parent)

    def _ask(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        job: Job,
        ready: Ready,
        is_over: Callable[[], bool],
        *,
        keeps: bool = False,
    ) -> Result | None:
        """A process's result of a job on a device; None once the job is over for others."""
        began = time.monotonic()
        deadline = began + job.limit_seconds
        try:
            child = self._have_child(name, command, ready)
            self._met[name].add(job.case)
            child.send(visit_line(job) if keeps else line_of(job))
            result = child.answer(job, lambda line: read_line(line, Result), deadline, is_over)
        except NoAnswer as error:
            self._end(name)
            return result_of_end(job, error.outcome, str(error), began)
        if result is None or result.outcome not in SETTLED:
            # it would answer in the middle of the next job, or has left something running
            self._end(name)
        return result

    def close(self) -> None:
        """End all of them."""
        for name in list(self._children):
            self._end(name)

    def _have_child(self, name: str, command: Callable[[], Sequence[str]], ready: Ready) -> Child:
        if name not in self._children:
            given = (command(), environment.of(self._settings))
            self._children[name] = self._parent.submit(Child, *given).result()
            self._children[name].send(line_of(ready))
        return self._children[name]

    def _end(self, name: str) -> None:
        self._met.pop(name, None)
        with suppress(OSError):
            self._children.pop(name).close()


def _name_process(program: str, job: Job) -> str:
    """What a process of a peer or of a build's hash is known by: that, and what it may read."""
    return f"{program} {job.source.path}" if job.source else program


def _model_files(job: Job) -> list[Path]:
    return [Path(job.source.path)] if job.source else []
