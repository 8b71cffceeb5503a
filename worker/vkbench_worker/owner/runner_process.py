"""The runner as its supervisor has it: the process that loads the driver, and what it may read."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from vkbench.job import Job, Outcome
from vkbench.messages import wire
from vkbench.process import log
from vkbench.programs.store import DamagedBuild
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_worker.containment import environment
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.containment.support import in_force
from vkbench_worker.errors import RunnerFailed
from vkbench_worker.owner.child import Babble, Child, Gone, NoAnswer, Silence, ending
from vkbench_worker.owner.reading import Group, identity
from vkbench_worker.owner.routes import Route
from vkbench_worker.progress import Tell, tell_nobody
from vkbench_worker.protocol import Ready, line_of, read_line, read_result

START_SECONDS = 60.0  # to open a device that nobody else has, or that is lent
FINISH_SECONDS = 10.0  # to close a device
GRACE_SECONDS = 0.5  # past a job's limit

_log = logging.getLogger(__name__)


class RunnerProcess:
    """A runner for one device; `start` makes a fresh one of it."""

    def __init__(
        self,
        selector: str,
        settings: Settings,
        parent: ThreadPoolExecutor,
        tell: Tell = tell_nobody,
        beside: int = 1,
        *,
        route: Route | None = None,
        is_lent: bool = False,
        caches: Path | None = None,
    ) -> None:
        """Nothing starts yet; with `caches`, a folder for a driver's, the device is a lent one."""
        self.ready: Ready | None = None  # of the last one that became ready
        self.is_used = False  # whether it had any job
        self.is_aborted = False
        self._selector = selector
        self._settings = settings
        self._parent = parent  # the kernel ends a process with the thread that started it
        self._tell = tell
        self._beside = beside  # supervisors of this host that share its processors, this one too
        self._route = route  # through a driver that was added, instead of the host's own
        self._is_lent = is_lent or caches is not None  # by another runner, which has the device
        self._caches = caches
        self._child: Child | None = None
        self._weights = frozenset[str]()  # files that it may read, see reading.py
        self._list = identity(settings.bundle_list())  # of bundles, that it may read
        self._strange = False  # whether it does jobs of other bundles

    @property
    def pid(self) -> int | None:
        """Process id of the runner, if there is one."""
        return self._child.pid if self._child else None

    @property
    def is_there(self) -> bool:
        """Whether there is a process; it may have ended without anyone having noticed."""
        return self._child is not None

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._child is not None and self._child.alive

    @property
    def has_answer(self) -> bool:
        """Whether the process has answered a job already."""
        return self._child is not None and self._child.has_line()

    def start(self, deadline: float | None) -> Ready:
        """Replace the process, and wait until it has the device; RunnerFailed says why not."""
        self.close()
        self.is_used, self._list = False, identity(self._settings.bundle_list())
        given = (self._command(), self._environ(), self._tell, "the runner")
        child = self._child = self._parent.submit(Child, *given).result()
        if self.is_aborted:  # while there was no process to kill
            child.kill()
        try:
            ready = read_line(child.first_line(deadline, self._selector), Ready)
        except Gone:
            status = child.wait()
            reason = child.last_words() or f"the runner ended with {ending(status)}"
            self.close()
            raise RunnerFailed(reason) from None
        except (Silence, Babble, wire.MalformedMessage) as error:
            self.close()
            raise RunnerFailed(f"the runner did not become ready: {error or 'no answer'}") from None
        if self._route:
            self._check_driver(self._route)
            ready = self._route.identify(ready)
        self.ready = ready
        device, sandbox = ready.facts.key, in_force(self._settings.sandbox)
        log.event(_log, "runner_ready", device=device, pid=child.pid, sandbox=sandbox)
        return ready

    def _check_driver(self, route: Route) -> None:
        """RunnerFailed where the process may have loaded another driver than was added.

        Files that stay in place may be updated between the choice of a driver and its loading.
        """
        try:
            route.check_files(self._settings)
        except DamagedBuild as error:
            self.close()
            raise RunnerFailed(str(error)) from None

    def admit(self, group: Group) -> None:
        """Have a process that may read what these jobs read; one that may not is ended."""
        weights = group.readable(self._weights)
        is_relisted = group.strange and identity(self._settings.bundle_list()) != self._list
        is_other = group.strange != self._strange and bool(self.ready and self.ready.checks_all)
        self._strange = group.strange
        if is_relisted or is_other or weights != self._weights:
            self._weights = weights
            self.close()

    def send(self, jobs: Iterable[Job]) -> None:
        """Have the process do jobs after those that it has."""
        assert self._child
        if lines := b"".join(map(line_of, jobs)):
            self.is_used = True
            self._child.send(lines)

    def answer(self, job: Job, is_over: Callable[[], bool]) -> Result | None:
        """The result of the first job without one; None, and no process, once the job is over.

        Raises NoAnswer. A process that does not answer, or has lost its device, is ended.
        """
        assert self._child
        limit = time.monotonic() + job.limit_seconds + GRACE_SECONDS
        try:
            result = self._child.answer(job, lambda line: read_result(line, job), limit, is_over)
        except NoAnswer:
            self.close()
            raise
        if result and result.outcome is Outcome.DEVICE_LOST:
            self._child.wait()
        if result is None or result.outcome is Outcome.DEVICE_LOST:
            self.close()
        return result

    def finish(self) -> None:
        """Have the process end by itself: only then has a driver written all that it keeps."""
        if self._child:
            self._child.finish(FINISH_SECONDS)

    def sign(self, result: Result) -> Result:
        """A result with the worker, the device and the environment that it comes from."""
        ready = self.ready
        device, system = (ready.facts.key, ready.environment.hash) if ready else ("", "")
        worker = f"{self._settings.host}:{os.getpid()}"
        return replace(result, worker=worker, device=device, environment=system)

    def abort(self) -> None:
        """End the process, and any that is started later; safe from any thread."""
        self.is_aborted = True
        if child := self._child:
            child.kill()

    def close(self) -> None:
        """End the process, if there is one."""
        child, self._child = self._child, None
        if child:
            with suppress(OSError):
                child.close()

    def _environ(self) -> dict[str, str]:
        given = (self._route.variables if self._route else environment.of)(self._settings)
        return {**given, **environment.homes(self._caches)} if self._caches else given

    def _command(self) -> list[str]:
        numbers = ("--parent", str(os.getpid()), "--beside", str(self._beside))
        device = self._route.arguments() if self._route else ("--device", self._selector)
        flags = [*["--strange"] * self._strange, *["--lent"] * self._is_lent]
        own = self._route.pipelines(self._settings) if self._route else None
        flags += [f"--pipelines={folder}" for folder in (self._caches or own,) if folder]
        return contained_command(
            self._settings.runner,
            *(*device, *numbers, *flags),
            reads=map(Path, sorted(self._weights)),
            writes=[self._caches] if self._caches else [],
            loader=self._route.loader if self._route else None,
        )
