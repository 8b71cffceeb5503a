"""What the jobs of one call of a supervisor become: results, signed and handed to the caller."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from vkbench.job import Job, Outcome
from vkbench.process import log
from vkbench.result import UNOPENED, Result
from vkbench_worker.ended import result_of_end
from vkbench_worker.owner.runner_process import RunnerProcess

_log = logging.getLogger(__name__)

Emit = Callable[[Result], None]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Where results go, and which jobs the caller has cancelled meanwhile."""

    emit: Emit
    cancelled: Callable[[Job], bool]
    runner: RunnerProcess  # which signs

    def is_over(self, job: Job) -> bool:
        """Whether nobody wants a job's result any more."""
        return self.runner.is_aborted or self.cancelled(job)

    def give(self, result: Result) -> None:
        """Hand a result over."""
        self.emit(self.runner.sign(result))

    def fail(self, job: Job, outcome: Outcome, reason: str) -> None:
        """Hand over why a job was not begun."""
        self.give(self.end(job, outcome, reason, time.monotonic()))

    def fail_unopened(self, job: Job, reason: str) -> None:
        """Hand over that no runner could open the device for a job."""
        failure = self.end(job, Outcome.DEVICE_LOST, reason, time.monotonic())
        self.give(replace(failure, telemetry={UNOPENED: 1.0}))

    def end(self, job: Job, outcome: Outcome, reason: str, began: float) -> Result:
        """Log and return how a job ended that began at a moment of the monotonic clock."""
        ready = self.runner.ready
        about = {"device": ready.facts.key if ready else None, "run": job.run or None}
        level = logging.INFO if outcome is Outcome.SKIPPED else logging.WARNING
        ending = {"job": job.id, "case": job.case, "outcome": outcome, "reason": reason}
        log.event(_log, "job_failed", level, **about, **ending)
        return result_of_end(job, outcome, reason, began)
