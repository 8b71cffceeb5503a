"""Workers and scheduler are restarted one after the other under load: nothing lost or twice."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter

from cluster import Lab, until
from vkbench.job import JobState

JOBS = 240  # more than are done while workers start on a busy machine


def stopped(process: subprocess.Popen[bytes]) -> None:
    """Stop as a service manager does."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def working(lab: Lab, name: str) -> subprocess.Popen[bytes]:
    """A worker that has begun a job."""
    done = len(lab.events(f"start {lab.key(name)}"))
    worker = lab.start_worker(name)
    until(lambda: len(lab.events(f"start {lab.key(name)}")) > done, "nothing runs", 30)
    return worker


def test_a_rolling_restart_loses_and_repeats_nothing(lab: Lab) -> None:
    scheduler = lab.start_scheduler()
    workers = {name: lab.start_worker(name) for name in "ab"}
    runs = [lab.submit(["sleep/f32/n50"] * JOBS, name) for name in "ab"]
    lab.await_start(10)
    stopped(scheduler)
    stopped(workers["a"])
    lab.start_scheduler()
    workers["a"] = working(lab, "a")
    stopped(workers["b"])
    working(lab, "b")
    stopped(workers["a"])
    working(lab, "a")
    assert sum(map(lab.ended, runs)) < 2 * JOBS  # it happened under load
    lab.await_end(*runs, seconds=40)
    lab.check(*runs)
    assert [lab.counts(run) for run in runs] == [{JobState.PASSED: JOBS}] * 2
    assert {row.tries for run in runs for row in lab.jobs(run)} == {0}
    assert max(Counter(event.job for event in lab.events("end")).values()) == 1
