"""What a driver takes to compile a kernel, as fresh runners on lavapipe tell it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import COMPILE, SUBMIT, Result
from vkbench.settings import Settings
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.owner.compiling import FILES, SAMPLES, ask_fresh_runners
from vkbench_worker.owner.runner_process import RunnerProcess
from vkbench_worker.progress import tell_nobody
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.runtime.vulkan.statistics import BINARY, DRIVERS_OWN

JOB = Job(id=7, token=3, case="add/f32/b1_c1_h8_w64", mode=Mode.COMPILE)


@pytest.fixture
def given(lavapipe: VulkanDevice) -> list[tuple[Path, list[str]]]:
    """The folders that runners were given for their caches, and what lay in them."""
    return []


def ask(
    job: Job, settings: Settings, device: str, given: list[tuple[Path, list[str]]]
) -> Result | None:
    with ThreadPoolExecutor(1) as parent:

        def begin(caches: Path) -> RunnerProcess:
            given.append((caches, [path.name for path in caches.rglob("*")]))
            return RunnerProcess(device, settings, parent, tell_nobody, 1, caches=caches)

        return ask_fresh_runners(job, begin, lambda: False)


def test_each_sample_is_of_a_runner_with_empty_caches(
    gpu_settings: Settings, lavapipe: VulkanDevice, given: list[tuple[Path, list[str]]]
) -> None:
    result = ask(JOB, gpu_settings, lavapipe.facts.key, given)
    assert result
    assert (result.outcome, result.reason, result.variant) == (Outcome.PASSED, "", "portable")
    timing, submission = result.timings
    assert (timing.metric, timing.count, timing.clock) == (COMPILE, SAMPLES, "host")
    assert 0 < timing.low <= timing.seconds <= timing.high < result.seconds
    assert (submission.metric, submission.count % SAMPLES, submission.clock) == (SUBMIT, 0, "host")
    assert 0 < submission.low <= submission.seconds < result.seconds
    binary, own, energy, files = result.statistics
    assert (binary.name, binary.spread) == (BINARY, None)  # of five runners, the same bytes
    assert (binary.value is None) == bool(binary.note)
    assert (own.name, own.value) == (DRIVERS_OWN, None)
    assert own.note == "the driver lacks VK_KHR_pipeline_executable_properties"
    assert (files.name, files.unit) == (FILES, "bytes")
    assert files.value is not None
    assert files.value > 1000
    assert files.spread is not None
    assert files.spread >= files.value / 1000  # caches vary by bytes: no later one is a change
    assert (energy.unit, energy.note) == ("J", "a CPU driver shares the processor")
    assert [sorted(names) for _, names in given] == [["cache", "tmp"]] * SAMPLES  # both empty
    assert len({folder for folder, _ in given}) == SAMPLES
    assert not any(folder.exists() for folder, _ in given)


def test_a_case_that_cannot_run_is_asked_once(
    gpu_settings: Settings, lavapipe: VulkanDevice, given: list[tuple[Path, list[str]]]
) -> None:
    case = "mul_mat/f16/m64_n64_k64"
    job = Job(id=7, token=3, case=case, mode=Mode.COMPILE, variant="coopmat")
    result = ask(job, gpu_settings, lavapipe.facts.key, given)
    assert result
    assert result.outcome is Outcome.SKIPPED
    assert len(given) == 1


def test_a_runner_that_is_too_slow_is_no_answer(
    gpu_settings: Settings, lavapipe: VulkanDevice, given: list[tuple[Path, list[str]]]
) -> None:
    job = Job(id=7, token=3, case=JOB.case, mode=Mode.COMPILE, limit_seconds=-0.5)
    with pytest.raises(NoAnswer) as late:
        ask(job, gpu_settings, lavapipe.facts.key, given)
    assert late.value.outcome is Outcome.TIMED_OUT
    assert not given[0][0].exists()
