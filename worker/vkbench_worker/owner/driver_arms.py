"""Pairs of two drivers on one device: their runners stay, and take turns.

The supervisor's own runner has the device all the while, and lends it: it does nothing meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from vkbench.device import Environment
from vkbench.drivers.store import DriverStore
from vkbench.errors import VkbenchError
from vkbench.job import Arm, ArmKind, Job, Outcome, pair_of
from vkbench.result import HOT, Result
from vkbench.settings import Settings
from vkbench_worker.ended import result_of_end
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.owner.routes import find_route
from vkbench_worker.owner.runner_process import START_SECONDS, RunnerProcess
from vkbench_worker.peers.turns import pair_arms
from vkbench_worker.protocol import Ready

NoteEnvironment = Callable[[Environment], None]


class DriverArms:
    """Asks the runners of drivers; one starts when a pair first needs it, or after it ended."""

    def __init__(
        self, settings: Settings, parent: ThreadPoolExecutor, note_environment: NoteEnvironment
    ) -> None:
        self._settings = settings
        self._parent = parent  # the kernel ends a process with the thread that started it
        self._note_environment = note_environment  # of results that come from a driver
        self._runners: dict[str, RunnerProcess] = {}  # by the driver's hash

    def do_pair(self, job: Job, ready: Ready, is_over: Callable[[], bool]) -> Result | None:
        """The result of a pair of drivers, with the environment of the new one."""
        self._end_others(job.drivers)
        if pair_of(job).metric != HOT:
            reason = "two drivers are timed hot alone"
            return result_of_end(job, Outcome.SKIPPED, reason, time.monotonic())
        return pair_arms(job, partial(self._ask, ready=ready, is_over=is_over), ready.facts)

    def close(self) -> None:
        """End the runners of all drivers."""
        self._end_others(())

    def _ask(
        self, arm: Arm, job: Job, *, ready: Ready, is_over: Callable[[], bool]
    ) -> Result | None:
        """The result of a job through a driver: the packaged kernel is checked and timed."""
        began = time.monotonic()
        visit = replace(job, bundle="", arm_kind=ArmKind.BUNDLE)
        try:
            runner = self._have_runner(arm.name, ready)
            runner.send([visit])
            result = runner.answer(visit, is_over)
        except NoAnswer as error:
            return result_of_end(visit, error.outcome, str(error), began)
        except VkbenchError as error:
            return result_of_end(visit, Outcome.ERROR, str(error), began)
        return result and runner.sign(result)

    def _have_runner(self, sha: str, ready: Ready) -> RunnerProcess:
        """The runner of a driver, which is started if there is none."""
        runner = self._runners.get(sha)
        if runner and runner.is_alive:
            return runner
        driver = DriverStore(self._settings.driver_folder()).find(sha)
        route = find_route(driver, ready, self._settings)
        runner = RunnerProcess(
            ready.facts.key, self._settings, self._parent, route=route, is_lent=True
        )
        self._runners[sha] = runner
        self._note_environment(runner.start(time.monotonic() + START_SECONDS).environment)
        return runner

    def _end_others(self, kept: Collection[str]) -> None:
        """End the runners of all drivers but these: they hold a part of the device's memory."""
        for sha in self._runners.keys() - set(kept):
            self._runners.pop(sha).close()
