"""Devices that check bounds: what a kernel writes far outside its buffer reaches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from planted_probe import STRAY, compiled
from vkbench.job import Job, Mode, Outcome
from vkbench.result import BOUNDS_CHECKED, Result
from vkbench.settings import Settings, settings
from vkbench_shaders.bundle import Bundle, packaged_sha
from vkbench_shaders.catalogue import problem
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.runner.bounds import CHECKED, checks_bounds
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.device import Barrier, Dispatch
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.device import VulkanDevice

WORDS = 1024
UNTOUCHED, INSIDE = 5, 3


@pytest.fixture(scope="module")
def stray(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(STRAY, tmp_path_factory.mktemp("stray"))


@pytest.fixture
def robust(request: pytest.FixtureRequest, gpu_settings: Settings) -> Iterator[VulkanDevice]:
    name: str = request.param
    request.getfixturevalue(name)
    selector = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}[name]
    with VulkanDevice.open(selector, replace(gpu_settings, robust=True)) as device:
        yield device


def written(
    device: VulkanDevice, code: bytes, word: int, *, checked: bool
) -> tuple[int, int, bool]:
    """What lies at a word of a buffer, and in the neighbour; whether the guards are whole.

    `word` counts from the buffer's first; one behind its end means the neighbour's first word.
    """
    program = Program(
        code=code,
        sha=sha256(code).hexdigest(),
        bindings=(0, 1),
        push_bytes=0,
        constants=(),
        checks_bounds=checked,
    )
    with device.buffer(4) as x, device.buffer(4 * WORDS) as y, device.buffer(4 * WORDS) as near:
        for buffer in (y, near):
            buffer.upload(np.full(WORDS, UNTOUCHED, np.uint32))
        if word >= WORDS:
            word = (near.offset - y.offset) // 4
            assert 4 * word >= y.range  # behind all that the kernel is shown, its guard too
        x.upload(np.array([word], np.uint32))
        pipeline = device.pipeline(program)
        recording = device.record([Dispatch(pipeline, [x, y], (1, 1, 1), b""), Barrier()])
        recording.run()
        recording.close()
        images = device.images([y, near])
        own, other = (image.data.view(np.uint32) for image in images)
        poison = np.uint32(images[0].poison)
        guards = [part.view(np.uint32) for image in images for part in (image.lead, image.trail)]
        whole = all((guard == poison).all() for guard in guards)
        return int(own[min(word, INSIDE)]), int(other[0]), whole


@pytest.mark.parametrize("robust", ["lavapipe", "swiftshader"], indirect=True)
def test_a_stray_write_reaches_nothing(robust: VulkanDevice, stray: bytes) -> None:
    assert written(robust, stray, INSIDE, checked=True) == (7, UNTOUCHED, True)
    assert written(robust, stray, WORDS, checked=True) == (UNTOUCHED, UNTOUCHED, True)


def test_without_the_check_it_hits_the_neighbour(swiftshader: VulkanDevice, stray: bytes) -> None:
    assert written(swiftshader, stray, WORDS, checked=False)[1] == 7


def test_only_jobs_of_other_bundles_are_checked(
    bundle: Bundle, lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(bundle, text=bundle.text.replace("{", "{ ", 1))
    assert bundle.sha == packaged_sha() != other.sha
    assert checks_bounds(other)
    assert checks_bounds(bundle, other)
    assert not checks_bounds(bundle)
    monkeypatch.setenv("VKBENCH_ROBUST", "0")
    settings.cache_clear()
    assert not checks_bounds(other)
    posed = problem("copy/f32/n1000")
    chosen = choose(posed, "auto", lavapipe.facts)
    plain, checked = (
        plan(bundle, chosen, lavapipe.facts, checked=each).passes[0][0] for each in (False, True)
    )
    assert plain.key != checked.key


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
def test_a_result_says_that_bounds_were_checked(
    bundle: Bundle, driver: str, request: pytest.FixtureRequest
) -> None:
    """Also on a device that checks those of all kernels or of none: packaged ones are as before."""
    device: VulkanDevice = request.getfixturevalue(driver)
    ours = replace(settings(), host=device.facts.host)
    other = replace(bundle, text=bundle.text.replace("{", "{ ", 1))
    other.save(ours.cache / "bundles" / other.sha)
    job = Job(id=1, token=1, case="copy/f32/n1000", mode=Mode.PERFORMANCE, measure_seconds=0.05)
    results: list[Result] = []
    jobs = [job, replace(job, id=2, bundle=other.sha), replace(job, id=3)]
    with Supervisor(device.facts.key, ours) as supervisor:
        supervisor.run(jobs, results.append)
    assert [(result.outcome, result.reason) for result in results] == [(Outcome.PASSED, "")] * 3
    checked = [[CHECKED in timing.warnings for timing in result.timings] for result in results]
    assert checked == [[False, False], [True, True], [False, False]]
    told = [BOUNDS_CHECKED in result.telemetry for result in results]
    assert told == [False, True, False]
