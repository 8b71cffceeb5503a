"""The trial of a device that the scheduler had paused: its canary, before all other jobs."""

from __future__ import annotations

from sqlalchemy import Connection

from vkbench.calibration import canary_of
from vkbench.device import DeviceFacts
from vkbench.job import Mode, PlannedJob
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db.work.store import add_jobs, create_run

PRIORITY = 1_000_000  # before whatever waits


def submit_trial(tx: Connection, facts: DeviceFacts, now: float) -> int:
    """Store a run of the device's canary, which joins no series; return the run's number."""
    job = PlannedJob(device=facts.key, case=canary_of(facts.type), mode=Mode.PERFORMANCE)
    run = create_run(
        tx,
        mode=Mode.PERFORMANCE,
        selection={},
        now=now,
        priority=PRIORITY,
        track="",
        words=RunWords(label="trial", purpose=Purpose(kind=RunKind.TRIAL)),
    )
    add_jobs(tx, run.id, [job])
    return run.id
