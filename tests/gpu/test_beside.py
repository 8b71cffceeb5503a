"""Two workers on two CPU drivers of one host: what one times, the other does not disturb."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.runtime.vulkan.device import VulkanDevice

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CHUNKS = 3
CASE = "copy/f32/n65537"
TIMED = Job(id=0, token=1, case=CASE, mode=Mode.PERFORMANCE, measure_seconds=0.1, noise=0.001)
CHECKED = replace(TIMED, mode=Mode.CORRECTNESS)


@pytest.fixture
def ours(gpu_settings: Settings, tmp_path: Path) -> Settings:
    """Settings with locks of these workers alone."""
    return replace(gpu_settings, data=tmp_path)


def work(ours: Settings, jobs: dict[str, Job]) -> list[Result]:
    """The results of a worker on each device, who begin at once and take one job a chunk."""
    ready, found = threading.Barrier(len(jobs)), list[Result]()

    def serve(device: str, job: Job) -> None:
        with Supervisor(device, ours, beside=len(jobs)) as supervisor:
            supervisor.start()
            ready.wait(60)
            for number in range(CHUNKS):
                supervisor.run([replace(job, id=number + 1)], found.append)

    threads = [threading.Thread(target=serve, args=each) for each in jobs.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.outcome for each in found] == [Outcome.PASSED] * CHUNKS * len(jobs)
    return sorted(found, key=lambda result: result.started)


@pytest.mark.parametrize("beside", [TIMED, CHECKED], ids=["timed", "checked"])
def test_nothing_runs_beside_a_timed_job(
    lavapipe: VulkanDevice, swiftshader: VulkanDevice, ours: Settings, beside: Job
) -> None:
    found = work(ours, {lavapipe.facts.key: TIMED, swiftshader.facts.key: beside})
    assert len({result.device for result in found[:CHUNKS]}) == 2, "one was kept waiting"
    for before, after in pairwise(found):
        assert before.started + before.seconds <= after.started
    timed = [each for each in found if each.device == lavapipe.facts.key]
    assert all(timing.seconds > 0 for each in timed for timing in each.timings)
    assert len(timed[0].timings) == 2
