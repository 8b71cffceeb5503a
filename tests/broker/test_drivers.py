"""The whole way on two real drivers: kill -9 of runner, worker and scheduler lose nothing."""

import os
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import select

from cluster import Lab, kill, until
from vkbench.device import DeviceFacts
from vkbench.job import JobState, Mode
from vkbench.messages.wire import from_builtins
from vkbench_db import schema
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit

DRIVERS = {
    "gpu": Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"),
    "swiftshader": Path("/usr/lib/chromium/vk_swiftshader_icd.json"),
}
NAMES = ("llvmpipe", "SwiftShader")


@pytest.fixture
def drivers(need: Callable[[str, str], NoReturn], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CPU drivers, which are two devices of one host."""
    for name, path in DRIVERS.items():
        if not path.exists():
            need(name, f"there is no {path}")
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(map(str, DRIVERS.values())))


def devices(lab: Lab) -> list[DeviceFacts]:
    with lab.database.reading() as tx:
        rows = tx.execute(select(schema.device.c.facts)).scalars()
        return [from_builtins(facts, DeviceFacts) for facts in rows]


def start_worker(lab: Lab, name: str) -> int:
    """The worker's process id."""
    return lab.start("-m", "vkbench_worker.service.main", name, log=f"worker-{name}").pid


def runner_of(worker: int) -> int:
    children = Path(f"/proc/{worker}/task").glob("*/children")
    return int("".join(path.read_text() for path in children).split()[0])


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("drivers")
def test_two_devices_and_three_kills(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(runner="vkbench_worker.runner.main")
    scheduler = lab.start_scheduler()
    workers = {name: start_worker(lab, name) for name in NAMES}
    until(lambda: len(devices(lab)) == 2, "two devices do not announce themselves", 60)
    selection = Selection(
        kernels=("copy", "dequantize", "get_rows"),
        formats=("q4_0", "f32"),
        mode=Mode.CORRECTNESS,
    )
    made = submit(lab.database, selection, devices(lab))
    run = made.run.id
    until(lambda: lab.ended(run) > 3, "nothing ends", 60)
    os.kill(runner_of(workers["llvmpipe"]), signal.SIGKILL)
    until(lambda: lab.ended(run) > 8, "nothing ends after the runner", 60)
    os.kill(workers["SwiftShader"], signal.SIGKILL)
    start_worker(lab, "SwiftShader")
    until(lambda: lab.ended(run) > 12, "nothing ends after the worker", 60)
    kill(scheduler)
    lab.start_scheduler()
    lab.await_end(run, seconds=90)
    lab.check(run)
    bad = [
        (job.case, job.reason)
        for job in lab.jobs(run)
        if job.state in (JobState.WRONG, JobState.FAILED)
    ]
    assert not bad
    assert {job.device_id for job in lab.jobs(run) if job.state == JobState.PASSED} == {1, 2}
    check_one_at_a_time(lab, run)


def check_one_at_a_time(lab: Lab, run: int) -> None:
    job, attempt = schema.job.c, schema.attempt.c
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(job.device_id, attempt.started_at, attempt.seconds)
            .join(schema.job, job.id == attempt.job_id)
            .where(job.run_id == run, attempt.outcome == JobState.PASSED)
            .order_by(job.device_id, attempt.started_at)
        ).all()
    for before, after in pairwise(rows):
        if before.device_id == after.device_id:
            assert before.started_at + before.seconds <= after.started_at + 0.002
