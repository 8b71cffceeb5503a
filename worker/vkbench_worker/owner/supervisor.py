"""The supervisor owns the runner, the one process that loads the driver, and outlives it.

A segfault, a hang past a job's limit or a lost device end the runner; the job on the device then
gets its cause, and the next one a fresh runner. Workers and `vkbench run` use it alike.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO

from vkbench.job import CHECKS, Job, Mode, Outcome
from vkbench.messages import wire
from vkbench.process import log
from vkbench.result import UNOPENED, Result
from vkbench.settings import Sandbox, Settings
from vkbench_worker.containment import environment, kernel
from vkbench_worker.containment.command import contained
from vkbench_worker.containment.support import in_force
from vkbench_worker.ended import ended
from vkbench_worker.errors import RunnerFailed
from vkbench_worker.owner.child import Babble, Child, Gone, Silence, ending
from vkbench_worker.owner.hardware import Hardware
from vkbench_worker.owner.marker import Marker
from vkbench_worker.owner.ownership import await_release, own
from vkbench_worker.owner.peers import Peers
from vkbench_worker.owner.reading import Group, first_group, identity
from vkbench_worker.owner.stock import Stock
from vkbench_worker.progress import Tell, unheard
from vkbench_worker.protocol import Ready, line_of, owner_path, read_line, read_result

GRACE_SECONDS = 0.5  # past a job's limit
LOOK_SECONDS = 0.25  # how often a waiting supervisor asks whether its job is cancelled
AHEAD_JOBS = 64  # that a runner has and has not begun: it makes their pipelines meanwhile
START_SECONDS = 60.0  # to open a device that this supervisor owns
START_PAUSES = (0.0, 1.0, 2.0)  # before each attempt: a device may need a moment after a crash

_log = logging.getLogger(__name__)

Emit = Callable[[Result], None]


class Supervisor:
    """Runs jobs on one device through a runner that it starts, watches and replaces."""

    def __init__(
        self,
        selector: str,
        settings: Settings,
        *,
        origin: str = "",
        tell: Tell = unheard,
        beside: int = 1,
    ) -> None:
        self._selector = selector
        self._beside = beside  # supervisors of this host that share its processors, this one too
        self._settings = settings
        self._origin = origin or settings.database_url()  # where job ids come from
        if settings.sandbox is not Sandbox.OFF:
            kernel.hide()  # where the kernel has no Landlock, runners could read our variables
        self._stock, self._tell = Stock(settings, tell), tell
        self._worker = f"{settings.host}:{os.getpid()}"
        # The kernel ends a runner with the thread that started it: this one lives as long as we do.
        self._parent = ThreadPoolExecutor(1, thread_name_prefix="runner-parent")
        self._child: Child | None = None
        self._peers = Peers(settings, self._parent)
        self._weights = frozenset[str]()  # files that its runner may read, see reading.py
        self._list = identity(settings.bundle_list())  # of bundles, that its runner may read
        self._strange = False  # whether its runner does jobs of other bundles
        self._used = False  # whether the runner had any job
        self._start_seconds = 0.0  # what it took to have it for the jobs at hand
        self._ready: Ready | None = None
        self._owner: IO[str] | None = None
        self._marker: Marker | None = None
        self._left: Result | None = None
        self._aborted = self._draining = False

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the runner and give the device back."""
        self._drop()
        self._peers.close()
        if self._marker:
            self._marker.close()
        if self._owner:
            self._owner.close()
        self._marker = self._owner = None
        self._parent.shutdown()

    @property
    def runner_pid(self) -> int | None:
        """Process id of the runner, if there is one."""
        return self._child.pid if self._child else None

    @property
    def has_answer(self) -> bool:
        """Whether the runner has answered the next job, too."""
        return self._child is not None and self._child.has_line()

    def start(self) -> Ready:
        """Start the runner and own the device; waits while another supervisor has it.

        RunnerFailed says why the runner could not start; `abort` ends the wait too.
        """
        if not self._owner:
            while not self._own_device(self._spawn(None)):
                self._drop()
                self._queue_up()
                if self._leaving():
                    raise RunnerFailed("stopped while another process had the device")
        elif not (self._child and self._child.alive):
            self._drop()
            self._spawn(time.monotonic() + START_SECONDS)
        assert self._ready
        return self._ready

    def recover(self) -> Result | None:
        """The attempt that a predecessor died in, once; ask after `start`."""
        left, self._left = self._left, None
        return left

    def run(
        self,
        jobs: Iterable[Job],
        emit: Emit,
        cancelled: Callable[[Job], bool] = lambda job: False,
    ) -> None:
        """Run jobs in order and emit one Result each, save for those that are cancelled.

        A paired job has a runner that did nothing before it: what a process is given once, such as
        where its memory lies, shall differ from pair to pair. While any of them is to be timed
        nothing else runs on the same hardware. Nothing runs any more after `abort` or `drain`.
        """
        waiting = list(jobs)
        memory = self._ready.facts.memory_bytes if self._ready else None

        def is_over(job: Job) -> bool:
            return self._leaving() or cancelled(job)

        def refuse(job: Job, outcome: Outcome, reason: str) -> None:
            emit(self._failure(job, outcome, reason, time.monotonic()))

        with self._hold_hardware(waiting):
            try:
                for part in self._stock.parts(waiting, memory, is_over, refuse):
                    self._run(deque(part), emit, cancelled)
            except BaseException:
                self._drop()  # it has jobs of this call, and would answer them in the next one
                raise

    def _hold_hardware(self, jobs: Iterable[Job]) -> AbstractContextManager[bool]:
        if not self._ready:  # no runner ever started: `_run` says why, if none does
            return nullcontext(True)
        is_timed = any(job.mode not in CHECKS for job in jobs)
        hardware = Hardware.of(self._ready, self._settings)
        return hardware.held(alone=is_timed, leaving=self._leaving)

    def _run(self, waiting: deque[Job], emit: Emit, cancelled: Callable[[Job], bool]) -> None:
        ahead = AHEAD_JOBS
        while waiting and not self._leaving():
            if cancelled(waiting[0]):
                waiting.popleft()
                continue
            if waiting[0].mode is Mode.PAIRED and self._used:
                self._drop()
            group = first_group(waiting)
            self._admit(group)
            began = time.monotonic()
            try:
                self._start_again()
            except RunnerFailed as error:
                self._refuse(waiting, emit, str(error))
                break
            self._start_seconds = time.monotonic() - began
            if waiting[0].mode is Mode.PEER:
                self._in_turns(waiting.popleft(), emit, cancelled)
                continue
            self._stream(waiting, group.jobs, ahead, emit, cancelled)
            if not self._child:
                # A driver may have died of the pipeline of a later job, and an innocent one have
                # paid a try for it. That happens once: now a runner has only the job that it does.
                ahead = 0
        if self._marker:
            self._marker.clear()

    def _admit(self, group: Group) -> None:
        weights = group.readable(self._weights)
        is_relisted = group.strange and identity(self._settings.bundle_list()) != self._list
        is_other = group.strange != self._strange and bool(self._ready and self._ready.checks_all)
        is_replaced, self._strange = is_relisted or is_other, group.strange
        if is_replaced or weights != self._weights:
            self._weights = weights
            self._drop()

    def drain(self) -> None:
        """Have `run` return after the job that is on the device; safe from any thread."""
        self._draining = True

    def abort(self) -> None:
        """Have `run` return at once, the running job unreported; safe from any thread."""
        self._aborted = True
        if child := self._child:
            child.kill()

    def _leaving(self) -> bool:
        return self._aborted or self._draining

    def _stream(
        self,
        waiting: deque[Job],
        together: Sequence[Job],
        ahead: int,
        emit: Emit,
        cancelled: Callable[[Job], bool],
    ) -> None:
        assert self._child and self._marker  # noqa: PT018
        # Many go in at once, so that the runner never waits for us; answers come in order, so the
        # first job without one is the job on the device.
        unsent = iter(together)
        self._send(islice(unsent, ahead))
        for job in together:
            if not self._child:
                return
            self._send(islice(unsent, 1))
            if self._leaving() or cancelled(job):
                self._drop()  # what is in its pipe cannot be taken back
                return
            self._marker.write(job)
            result = self._answer(job, cancelled)
            waiting.popleft()
            if result:
                log.event(_log, "job_ended", logging.DEBUG, job=job.id, outcome=result.outcome)
                emit(result)

    def _in_turns(self, job: Job, emit: Emit, cancelled: Callable[[Job], bool]) -> None:
        assert self._ready and self._marker  # noqa: PT018
        self._marker.write(job)

        def ours(visit: Job) -> Result | None:
            self._send([visit])
            return self._answer(visit, cancelled)

        def is_over() -> bool:
            return self._aborted or cancelled(job)

        if result := self._peers.in_turns(job, self._ready, ours, is_over):
            emit(self._sign_result(result))

    def _send(self, jobs: Iterable[Job]) -> None:
        assert self._child
        if lines := b"".join(map(line_of, jobs)):
            self._used = True
            self._child.send(lines)

    def _answer(self, job: Job, cancelled: Callable[[Job], bool]) -> Result | None:
        assert self._child
        began = time.monotonic()
        limit = began + job.limit_seconds + GRACE_SECONDS
        while True:
            try:
                line = self._child.line(min(limit, time.monotonic() + LOOK_SECONDS))
                return self._read(job, line)
            except Silence:
                if self._aborted or cancelled(job):
                    self._drop()
                    return None
                if time.monotonic() >= limit:
                    self._drop()
                    reason = f"no answer within {job.limit_seconds:g} s"
                    return self._failure(job, Outcome.TIMED_OUT, reason, began)
            except Gone:
                outcome, reason = self._child.cause_of_death()
                self._drop()
                return None if self._aborted else self._failure(job, outcome, reason, began)
            except (Babble, wire.MalformedMessage) as error:
                self._drop()
                reason = f"the runner sent an invalid line: {error}"
                return self._failure(job, Outcome.ERROR, reason, began)

    def _read(self, job: Job, line: bytes) -> Result:
        result = read_result(line, job)
        if result.outcome is Outcome.DEVICE_LOST:
            assert self._child
            self._child.wait()
            self._drop()
        # The process of its own is part of what a pair costs: the dispatcher learns from this.
        start = self._start_seconds if job.mode is Mode.PAIRED else 0.0
        return self._sign_result(replace(result, case=job.case, seconds=result.seconds + start))

    def _refuse(self, jobs: Iterable[Job], emit: Emit, reason: str) -> None:
        if not self._aborted:
            for job in jobs:
                failure = self._failure(job, Outcome.DEVICE_LOST, reason, time.monotonic())
                emit(replace(failure, telemetry={UNOPENED: 1.0}))

    def _failure(self, job: Job, outcome: Outcome, reason: str, began: float) -> Result:
        key = self._ready.facts.key if self._ready else None
        about = {"device": key, "run": job.run or None, "job": job.id, "case": job.case}
        level = logging.INFO if outcome is Outcome.SKIPPED else logging.WARNING
        log.event(_log, "job_failed", level, **about, outcome=outcome, reason=reason)
        return self._sign_result(ended(job, outcome, reason, began))

    def _sign_result(self, result: Result) -> Result:
        ready = self._ready
        device, system = (ready.facts.key, ready.environment.hash) if ready else ("", "")
        return replace(result, worker=self._worker, device=device, environment=system)

    def _start_again(self) -> None:
        for pause in START_PAUSES:
            time.sleep(pause)
            try:
                self.start()
                return
            except RunnerFailed as error:
                failure = error
                log.warn(_log, "runner_failed", reason=error)
                if self._aborted:
                    break
        raise failure

    def _spawn(self, deadline: float | None) -> Ready:
        given = (self._command(), environment.of(self._settings), self._tell)
        self._used, self._list = False, identity(self._settings.bundle_list())
        child = self._child = self._parent.submit(Child, *given).result()
        if self._aborted:  # while there was no child to kill
            child.kill()
        try:
            self._ready = read_line(child.first_line(deadline, self._selector), Ready)
        except Gone:
            status = child.wait()
            reason = child.last_words() or f"the runner ended with {ending(status)}"
            self._drop()
            raise RunnerFailed(reason) from None
        except (Silence, Babble, wire.MalformedMessage) as error:
            self._drop()
            raise RunnerFailed(f"the runner did not become ready: {error or 'no answer'}") from None
        device, sandbox = self._ready.facts.key, in_force(self._settings.sandbox)
        log.event(_log, "runner_ready", device=device, pid=child.pid, sandbox=sandbox)
        return self._ready

    def _own_device(self, ready: Ready) -> bool:
        # The runner's own lock goes with each runner. This one lasts, so that a second worker which
        # waits for the device cannot slip in between a crash and the fresh runner.
        self._owner = own(owner_path(self._settings, ready.facts.key))
        if self._owner is None:
            return False
        self._marker = Marker.of(self._settings, ready.facts.key, self._origin)
        self._left = self._left_behind()
        self._marker.clear()
        return True

    def _queue_up(self) -> None:
        assert self._ready
        log.warn(_log, "device_awaited", device=self._ready.facts.key)
        await_release(owner_path(self._settings, self._ready.facts.key), self._leaving)

    def _left_behind(self) -> Result | None:
        if not (marked := self._marker.read() if self._marker else None):
            return None
        job, token = marked
        died = Result(job=job, token=token, outcome=Outcome.WORKER_DIED, started=time.time())
        return self._sign_result(
            replace(died, reason="the worker ended while this job was on the device")
        )

    def _command(self) -> list[str]:
        numbers = ("--parent", str(os.getpid()), "--beside", str(self._beside))
        arguments = ("--device", self._selector, *numbers, *["--strange"] * self._strange)
        return contained(self._settings.runner, *arguments, reads=map(Path, sorted(self._weights)))

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child:
            with suppress(OSError):
                child.close()
