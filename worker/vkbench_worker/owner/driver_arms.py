"""Jobs of drivers on one device: a runner of each driver stays, and those of a pair take turns.

The supervisor's own runner has the device all the while, and lends it: it does nothing meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from vkbench.device import Environment
from vkbench.drivers.store import drivers_of
from vkbench.errors import UsageError, VkbenchError
from vkbench.job import Arm, ArmKind, Job, Mode, Outcome
from vkbench.result import HOT, Result
from vkbench.settings import Settings
from vkbench_worker.ended import result_of_end
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.owner.reading import first_group
from vkbench_worker.owner.routes import Route, find_route
from vkbench_worker.owner.runner_process import START_SECONDS, RunnerProcess
from vkbench_worker.peers.turns import pair_arms
from vkbench_worker.protocol import Ready

NoteEnvironment = Callable[[Environment], None]
IsOver = Callable[[], bool]
# has fresh runners of a driver, each with a folder of caches, compile a job's kernel
Compile = Callable[[Job, Callable[[Path], RunnerProcess], IsOver], Result | None]


class DriverArms:
    """Asks the runners of drivers; one starts when a job first needs it, or after it ended."""

    def __init__(
        self,
        settings: Settings,
        parent: ThreadPoolExecutor,
        note_environment: NoteEnvironment,
        compile_kernel: Compile,
    ) -> None:
        self._settings = settings
        self._parent = parent  # the kernel ends a process with the thread that started it
        self._compile_kernel = compile_kernel
        self._note_environment = note_environment  # of results that come from a driver
        self._runners: dict[str, tuple[Route, RunnerProcess]] = {}  # by the driver's hash

    def do(self, job: Job, ready: Ready, is_over: Callable[[], bool]) -> Result | None:
        """The result of a job through a driver, or of a pair, with the new one's environment.

        What this host cannot run through a driver is skipped, with the reason.
        """
        self._end_others(job.drivers)
        if job.pair is None:
            return self._ask(job.driver, job, ready, is_over)
        if job.pair.old.kind is not ArmKind.DRIVER or job.pair.metric != HOT:
            reason = "two drivers are timed hot alone"
            return result_of_end(job, Outcome.SKIPPED, reason, time.monotonic())
        return pair_arms(job, partial(self._visit, ready=ready, is_over=is_over), ready.facts)

    def close(self) -> None:
        """End the runners of all drivers."""
        self._end_others(())

    def _visit(
        self, arm: Arm, job: Job, *, ready: Ready, is_over: Callable[[], bool]
    ) -> Result | None:
        """The result of a turn of a pair: the packaged kernel is checked and timed."""
        visit = replace(job, bundle="", arm_kind=ArmKind.BUNDLE, driver=arm.name)
        return self._ask(arm.name, visit, ready, is_over)

    def _ask(self, sha: str, job: Job, ready: Ready, is_over: Callable[[], bool]) -> Result | None:
        """The result of a job whose kernel runs through a driver."""
        began = time.monotonic()
        plain = replace(job, driver="")
        try:
            route, runner = self._have_runner(sha, plain, ready)
        except UsageError as error:  # it is not here, or shows no such device
            return result_of_end(job, Outcome.SKIPPED, str(error), began)
        except VkbenchError as error:
            return result_of_end(job, Outcome.ERROR, str(error), began)
        try:
            if job.mode is Mode.COMPILE:
                result = self._compile_kernel(plain, partial(self._begin, route), is_over)
            else:
                runner.send([plain])
                result = runner.answer(plain, is_over)
        except NoAnswer as error:
            return runner.sign(result_of_end(job, error.outcome, str(error), began))
        except VkbenchError as error:
            return runner.sign(result_of_end(job, Outcome.ERROR, str(error), began))
        return result and runner.sign(result)

    def _have_runner(self, sha: str, job: Job, ready: Ready) -> tuple[Route, RunnerProcess]:
        """The runner of a driver that may do a job, which is started if there is none."""
        group = first_group([job])
        if sha in self._runners:
            self._runners[sha][1].admit(group)
            if self._runners[sha][1].is_alive:
                return self._runners[sha]
        driver = drivers_of(self._settings).find_any(sha)
        route = find_route(driver, ready, self._settings)
        runner = self._begin(route)
        runner.admit(group)
        self._runners[sha] = route, runner
        self._note_environment(runner.start(time.monotonic() + START_SECONDS).environment)
        return route, runner

    def _begin(self, route: Route, caches: Path | None = None) -> RunnerProcess:
        """A runner that reaches the device by a route, not started yet."""
        return RunnerProcess(
            route.facts.key,
            self._settings,
            self._parent,
            route=route,
            is_lent=True,
            caches=caches,
        )

    def _end_others(self, kept: Collection[str]) -> None:
        """End the runners of all drivers but these: they hold a part of the device's memory."""
        for sha in self._runners.keys() - set(kept):
            self._runners.pop(sha)[1].close()
