"""The supervisor owns the runner, the one process that loads the driver, and outlives it.

A segfault, a hang past a job's limit or a lost device end the runner; the job on the device then
gets its cause, and the next one a fresh runner. Workers and `vkbench run` use it alike.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice

from vkbench.drivers.stamp import DriverFiles
from vkbench.job import CHECKS, Job, Mode, Outcome
from vkbench.process import log
from vkbench.result import Result
from vkbench.settings import Sandbox, Settings
from vkbench_worker.closing import Closing
from vkbench_worker.containment import kernel
from vkbench_worker.errors import RunnerFailed
from vkbench_worker.owner.answers import Answers, Emit
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.owner.compiling import ask_fresh_runners
from vkbench_worker.owner.driver_arms import DriverArms, NoteEnvironment
from vkbench_worker.owner.hardware import Hardware
from vkbench_worker.owner.ownership import Ownership
from vkbench_worker.owner.reading import Group, first_group
from vkbench_worker.owner.routes import Route
from vkbench_worker.owner.runner_process import START_SECONDS, RunnerProcess
from vkbench_worker.owner.stock import Stock
from vkbench_worker.peers.processes import Peers, ProgramOf
from vkbench_worker.progress import Tell, tell_nobody
from vkbench_worker.protocol import Ready

AHEAD_JOBS = 64  # that a runner has and has not begun: it makes their pipelines meanwhile
START_PAUSES = (0.0, 1.0, 2.0)  # before each attempt: a device may need a moment after a crash

_log = logging.getLogger(__name__)


class Supervisor(Closing):
    """Runs jobs on one device through a runner that it starts, watches and replaces."""

    def __init__(
        self,
        selector: str,
        settings: Settings,
        *,
        origin: str = "",
        tell: Tell = tell_nobody,
        beside: int = 1,
        program_of: ProgramOf | None = None,
        route: Route | None = None,
        note_environment: NoteEnvironment = lambda environment: None,
    ) -> None:
        self._settings = settings
        if settings.sandbox is not Sandbox.OFF:
            kernel.hide()  # where the kernel has no Landlock, runners could read our variables
        self._stock = Stock(settings, tell)
        # The kernel ends a runner with the thread that started it: this one lives as long as we do.
        self._parent = ThreadPoolExecutor(1, thread_name_prefix="runner-parent")
        self._make_runner = partial(
            RunnerProcess,
            settings=settings,
            parent=self._parent,
            tell=tell,
            beside=beside,
            route=route,
        )
        self._runner = self._make_runner(selector)
        self._peers = Peers(settings, self._parent, program_of)
        self._drivers = DriverArms(settings, self._parent, note_environment, ask_fresh_runners)
        self._ownership = Ownership(settings, origin or settings.database_url())
        self._note_environment = note_environment
        self._is_own = route is None  # whether the runner loads the host's own driver
        self._files: DriverFiles | None = None  # of that one, as the runner loaded it
        self._marked: Job | None = None  # the last one that was on the device
        self._start_seconds = 0.0  # what it took to have the runner for the jobs at hand
        self._is_draining = False

    def close(self) -> None:
        """End the runner, which keeps its pipelines if it was not aborted; give the device back."""
        if not self._runner.is_aborted:
            self._runner.finish()
        self._runner.close()
        self._peers.close()
        self._drivers.close()
        self._ownership.close()
        self._parent.shutdown()

    @property
    def runner_pid(self) -> int | None:
        """Process id of the runner, if there is one."""
        return self._runner.pid

    @property
    def ready(self) -> Ready | None:
        """What the runner said that was started last: of an updated driver another thing."""
        return self._runner.ready

    @property
    def broken_off(self) -> Job | None:
        """The job that was on the device last, once `abort` was called: it may have no result."""
        return self._marked if self._runner.is_aborted else None

    @property
    def has_answer(self) -> bool:
        """Whether the runner has answered the next job, too."""
        return self._runner.has_answer

    def start(self) -> Ready:
        """Start the runner and own the device; waits while another supervisor has it.

        RunnerFailed says why the runner could not start; `abort` ends the wait too.
        """
        while not self._ownership.is_held:
            ready = self._start_runner(None)
            device = ready.facts.key
            if self._ownership.take(device):
                return ready
            self._runner.close()
            log.warn(_log, "device_awaited", device=device)
            self._ownership.await_release(device, self._is_leaving)
            if self._is_leaving():
                raise RunnerFailed("stopped while another process had the device")
        if not self._runner.is_alive:
            self._start_runner(time.monotonic() + START_SECONDS)
        assert self._runner.ready
        return self._runner.ready

    def _start_runner(self, deadline: float | None) -> Ready:
        """Start the runner, and note which driver it has loaded."""
        known, began = self._runner.ready, time.time()
        ready = self._runner.start(deadline)
        if self._is_own:
            self._files = DriverFiles(ready.environment, began)
        if known and known.environment != ready.environment:
            self._note_environment(ready.environment)
        return ready

    def recover(self) -> Result | None:
        """The attempt that a predecessor died in, once; ask after `start`."""
        left = self._ownership.take_left()
        return left and self._runner.sign(left)

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
        ready = self._runner.ready
        memory = ready.facts.memory_bytes if ready else None
        answers = Answers(emit=emit, cancelled=cancelled, runner=self._runner)

        def is_over(job: Job) -> bool:
            return self._is_leaving() or cancelled(job)

        with self._hold_hardware(waiting):
            try:
                for part in self._stock.parts(waiting, memory, is_over, answers.fail):
                    self._run_part(deque(part), answers)
            except BaseException:
                # it has jobs of this call, and would answer them in the next one
                self._runner.close()
                raise

    def drain(self) -> None:
        """Have `run` return after the job that is on the device; safe from any thread."""
        self._is_draining = True

    def abort(self) -> None:
        """Have `run` return at once, the running job unreported; safe from any thread."""
        self._runner.abort()

    def _is_leaving(self) -> bool:
        return self._runner.is_aborted or self._is_draining

    def _hold_hardware(self, jobs: Iterable[Job]) -> AbstractContextManager[bool]:
        ready = self._runner.ready
        if not ready:  # no runner ever started: `_run_part` says why, if none does
            return nullcontext(True)
        is_timed = any(job.mode not in CHECKS for job in jobs)
        return Hardware.of(ready, self._settings).hold(alone=is_timed, leaving=self._is_leaving)

    def _run_part(self, waiting: deque[Job], answers: Answers) -> None:
        ahead = AHEAD_JOBS
        while waiting and not self._is_leaving():
            if answers.cancelled(waiting[0]):
                waiting.popleft()
                continue
            group = first_group(waiting)
            try:
                self._prepare_runner(group)
            except RunnerFailed as error:
                if not self._runner.is_aborted:
                    for job in waiting:
                        answers.fail_unopened(job, str(error))
                break
            if not waiting[0].drivers:
                self._drivers.close()  # their runners hold a part of the device's memory
            if waiting[0].mode is Mode.PEER or waiting[0].builds or waiting[0].drivers:
                self._ask_others(waiting.popleft(), answers)
                continue
            if waiting[0].mode is Mode.COMPILE:
                self._ask_fresh_runners(waiting.popleft(), answers)
                continue
            self._stream(waiting, group.jobs, ahead, answers)
            if not self._runner.is_there:
                # A driver may have died of the pipeline of a later job, and an innocent one have
                # paid a try for it. That happens once: now a runner has only the job that it does.
                ahead = 0
        self._ownership.clear_mark()

    def _prepare_runner(self, group: Group) -> None:
        """Have a runner that may do the jobs of a group; RunnerFailed if none starts."""
        if self._has_updated_driver():
            self._leave_driver()
        if group.jobs[0].mode is Mode.PAIRED and self._runner.is_used:
            self._runner.close()
        self._runner.admit(group)
        began = time.monotonic()
        self._start_again()
        self._start_seconds = time.monotonic() - began

    def _has_updated_driver(self) -> bool:
        """Whether processes that start now may load another driver than the runner has."""
        return self._files is not None and self._files.have_moved()

    def _leave_driver(self) -> None:
        """End all processes with a driver that was updated, once the update is over."""
        assert self._files
        log.event(_log, "driver_updated")
        for processes in (self._runner, self._peers, self._drivers):
            processes.close()
        self._files.await_stillness(self._is_leaving)

    def _start_again(self) -> None:
        for pause in START_PAUSES:
            time.sleep(pause)
            try:
                self.start()
                return
            except RunnerFailed as error:
                failure = error
                log.warn(_log, "runner_failed", reason=error)
                if self._runner.is_aborted:
                    break
        raise failure

    def _mark(self, job: Job) -> None:
        self._marked = job
        self._ownership.mark(job)

    def _stream(
        self, waiting: deque[Job], together: Sequence[Job], ahead: int, answers: Answers
    ) -> None:
        # Many go in at once, so that the runner never waits for us; answers come in order, so the
        # first job without one is the job on the device.
        unsent = iter(together)
        self._runner.send(islice(unsent, ahead))
        for job in together:
            if not self._runner.is_there:
                return
            self._runner.send(islice(unsent, 1))
            if self._is_leaving() or answers.cancelled(job):
                self._runner.close()  # what is in its pipe cannot be taken back
                return
            self._mark(job)
            result = self._ask_runner(job, answers)
            waiting.popleft()
            if result:
                log.event(_log, "job_ended", logging.DEBUG, job=job.id, outcome=result.outcome)
                answers.give(result)

    def _ask_others(self, job: Job, answers: Answers) -> None:
        """Have a build do a job, or a peer and the runner in turns, or the runners of drivers."""
        ready = self._runner.ready
        assert ready
        self._mark(job)

        def ask_runner(visit: Job) -> Result | None:
            self._runner.send([visit])
            return self._ask_runner(visit, answers)

        is_over = partial(answers.is_over, job)
        if job.drivers:
            if result := self._drivers.do(job, ready, is_over):
                answers.emit(result if result.environment else self._runner.sign(result))
            return
        if job.builds:
            result = self._peers.do_builds(job, ready, is_over)
        else:
            result = self._peers.in_turns(job, ready, ask_runner, is_over)
        if result:
            answers.give(self._doubt(job, result, answers))

    def _doubt(self, job: Job, result: Result, answers: Answers) -> Result:
        """A result of other processes than the runner, unless they may have another driver."""
        if not self._has_updated_driver():
            return result
        reason = "the driver was updated meanwhile: which one it ran on is not clear"
        return answers.end(job, Outcome.ERROR, reason, time.monotonic() - result.seconds)

    def _ask_fresh_runners(self, job: Job, answers: Answers) -> None:
        """Have runners without caches compile a job's kernel."""
        ready = self._runner.ready
        assert ready
        self._mark(job)
        make = partial(self._make_runner, ready.facts.key)
        is_over, began = partial(answers.is_over, job), time.monotonic()
        try:
            result = ask_fresh_runners(job, lambda caches: make(caches=caches), is_over)
        except RunnerFailed as error:
            answers.fail_unopened(job, str(error))
        except NoAnswer as error:
            answers.give(answers.end(job, error.outcome, str(error), began))
        else:
            if result:
                answers.give(self._doubt(job, result, answers))

    def _ask_runner(self, job: Job, answers: Answers) -> Result | None:
        """The runner's result of a job, or how it failed; None if it is not to be reported."""
        began = time.monotonic()
        try:
            result = self._runner.answer(job, partial(answers.is_over, job))
        except NoAnswer as error:
            if self._runner.is_aborted:
                return None
            return answers.end(job, error.outcome, str(error), began)
        if result is None:
            return None
        # The process of its own is part of what a pair costs: the dispatcher learns from this.
        start = self._start_seconds if job.mode is Mode.PAIRED else 0.0
        return replace(result, case=job.case, seconds=result.seconds + start)
