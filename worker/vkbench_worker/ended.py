"""Results for jobs whose runner could not write one: crashed, timed out, refused."""

from __future__ import annotations

import time

from vkbench.job import ArmKind, Job, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import packaged_sha


def result_of_end(job: Job, outcome: Outcome, reason: str, began: float) -> Result:
    """How a job ended that began at a moment of the monotonic clock."""
    seconds = time.monotonic() - began
    return Result(
        job=job.id,
        token=job.token,
        outcome=outcome,
        case=job.case,
        reason=reason,
        bundle=("" if job.arm_kind is ArmKind.DRIVER else job.bundle) or packaged_sha(),
        started=time.time() - seconds,
        seconds=seconds,
    )
