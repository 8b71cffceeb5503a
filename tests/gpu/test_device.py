"""Devices: choosing, moving bytes, pipeline caches, limits, and nothing left behind."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbench.errors import UnknownName
from vkbench.job import Job, Mode, Outcome
from vkbench.settings import Settings, read
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle
from vkbench_worker.judging.poison import changed_guards
from vkbench_worker.runner.execute import compute, execute
from vkbench_worker.runner.listing import find_devices
from vkbench_worker.runtime.device import Barrier, Copy, Fill, Stamp
from vkbench_worker.runtime.discovery.loaded import SHA_DIGITS
from vkbench_worker.runtime.errors import OutOfMemory, Unsupported
from vkbench_worker.runtime.program import GUARD, POISON_A, POISON_B
from vkbench_worker.runtime.vulkan import memory, transfers
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.runtime.vulkan.transfers import STAGING_BYTES


def test_a_device_is_chosen_by_index_name_uuid_and_key(
    lavapipe: VulkanDevice, gpu_settings: Settings
) -> None:
    facts = lavapipe.facts
    for selector in (str(facts.index), "LLVMpipe", facts.uuid, facts.key):
        with VulkanDevice.open(selector, gpu_settings) as device:
            assert device.facts == facts
    with pytest.raises(UnknownName, match="unknown device 'geforce'"):
        VulkanDevice.open("geforce", gpu_settings)


def test_both_drivers_are_listed(
    lavapipe: VulkanDevice, swiftshader: VulkanDevice, gpu_settings: Settings
) -> None:
    found = {seen.facts.key: seen.facts for seen in find_devices(gpu_settings)}
    assert found == {facts.key: facts for facts in (lavapipe.facts, swiftshader.facts)}


def test_cpu_drivers_are_the_same_hardware(
    lavapipe: VulkanDevice, swiftshader: VulkanDevice
) -> None:
    assert lavapipe.hardware == swiftshader.hardware == "cpu"
    assert lavapipe.facts.subgroup_size == 8
    assert "fp16" in lavapipe.facts.features
    assert "fp16" not in swiftshader.facts.features
    assert lavapipe.environment.hash != swiftshader.environment.hash


def test_an_environment_names_the_files_of_its_driver(
    lavapipe: VulkanDevice, drivers: dict[str, str]
) -> None:
    extra = lavapipe.environment.extra
    assert extra["icd"] == drivers["llvmpipe"]
    assert len(extra["icd_library"]) == SHA_DIGITS
    assert extra["layers"]
    assert not {"power_cap", "resizable_bar"} & set(extra)  # no board is around a CPU


@pytest.fixture(scope="module")
def staged(lavapipe: VulkanDevice, gpu_settings: Settings) -> Iterator[VulkanDevice]:
    """lavapipe, whose memory is the host's, used as if it had memory of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "UNIFIED", ())
        patch.setattr(transfers, "UNIFIED", ())
        opened = VulkanDevice.open(lavapipe.facts.key, gpu_settings)
    with opened as device:
        yield device


each_memory = pytest.mark.parametrize("how", ["mapped", "staged"])


@pytest.fixture
def device(request: pytest.FixtureRequest, how: str) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue("lavapipe" if how == "mapped" else "staged")
    return found


@each_memory
@pytest.mark.parametrize("size", [1, 3, 4, 1021, STAGING_BYTES, 2 * STAGING_BYTES + 12345])
def test_bytes_come_back_between_whole_guards(device: VulkanDevice, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    with device.buffer(size) as buffer, device.buffer(size) as copy:
        buffer.upload(data)
        copy.fill(POISON_B)
        copy.copy_from(buffer)
        for image in device.images([buffer, copy]):
            assert np.array_equal(image.data, data)
            around = np.concatenate([image.lead, np.zeros(size % 4, np.uint8), image.trail])
            words = around.view(np.uint32)
            assert len(image.lead) == GUARD
            assert len(image.trail) >= GUARD
            assert np.count_nonzero(words != POISON_A) == (1 if size % 4 else 0)


@pytest.fixture
def submissions(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many command buffers each submission to the device has had."""
    found: list[int] = []
    submit = device.logical.submit

    def noted(buffers: list[Any]) -> None:
        found.append(len(buffers))
        submit(buffers)

    monkeypatch.setattr(device.logical, "submit", noted)
    return found


@each_memory
def test_a_check_submits_each_of_its_two_runs_once(
    device: VulkanDevice, how: str, bundle: Bundle, submissions: list[int]
) -> None:
    job = Job(id=1, token=1, case="add/f32/b1_c1_h17_w129", mode=Mode.CORRECTNESS)
    assert execute(device, bundle, job).outcome is Outcome.PASSED
    # staged: inputs and poison, the launch, what it left; mapped: the launch, what the host sees
    assert submissions == ([3, 3] if how == "staged" else [2, 2])


@each_memory
def test_a_check_of_more_than_the_staging_memory_is_right(
    device: VulkanDevice, how: str, bundle: Bundle, submissions: list[int]
) -> None:
    count = STAGING_BYTES // 4 + 4321
    job = Job(id=1, token=1, case=f"copy/f32/n{count}", mode=Mode.CORRECTNESS)
    assert execute(device, bundle, job).outcome is Outcome.PASSED
    assert (len(submissions) > 2) is (how == "staged")


@each_memory
def test_what_is_put_in_line_and_closed_does_not_run(
    device: VulkanDevice, how: str, submissions: list[int]
) -> None:
    with device.buffer(64) as buffer:
        buffer.fill(POISON_A)
        recording = device.record([Stamp(), Fill(buffer), Stamp()])
        recording.enqueue()
        recording.close()
        assert np.array_equal(
            device.images([buffer])[0].data.view(np.uint32), np.full(16, POISON_A, np.uint32)
        )
    assert submissions == ([2] if how == "staged" else [])


@each_memory
def test_copies_of_a_recording_go_along_with_the_one_behind_it(
    device: VulkanDevice, how: str, submissions: list[int]
) -> None:
    """It has no stamps; the data are copied, and no guards."""
    with device.buffer(10) as source, device.buffer(10) as target:
        source.upload(np.arange(10, dtype=np.uint8))
        target.fill(POISON_A)
        with (
            device.record([Barrier(), Copy(source, target), Barrier()]) as copies,
            device.record([Stamp(), Stamp()]) as timed,
        ):
            before = len(submissions)
            copies.enqueue()
            assert len(submissions) == before
            assert len(timed.run()) == 1
            assert len(submissions) == before + 1
        [image] = device.images([target])
    assert list(image.data) == list(range(10))
    assert not any(side.any() for side in changed_guards(image))


@each_memory
def test_the_host_writes_behind_what_is_in_line(device: VulkanDevice, how: str) -> None:
    """Which is a copy of what the buffer held before."""
    with device.buffer(64) as source, device.buffer(64) as target:
        source.upload(np.full(64, 1, np.uint8))
        target.copy_from(source)
        source.upload(np.full(64, 2, np.uint8))
        found = device.images([source, target])
        assert [int(image.data[0]) for image in found] == [2, 1]


def fill_up(device: VulkanDevice, stack: ExitStack) -> None:
    for _ in range(64):
        stack.callback(device.buffer(134217728).close)


def test_what_is_too_large_is_said_to_be(lavapipe: VulkanDevice) -> None:
    with pytest.raises(Unsupported, match="the device's limit is 134,217,728"):
        lavapipe.buffer(134217729)
    with ExitStack() as stack, pytest.raises(OutOfMemory, match="of device memory"):
        fill_up(lavapipe, stack)
    assert lavapipe.memory_left() > 1 << 30


def test_a_case_that_does_not_fit_is_skipped(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    job = Job(id=1, token=1, case="mul_mat_vec/f32/m4096_n1_k14336", mode=Mode.CORRECTNESS)
    result = execute(lavapipe, bundle, job)
    assert result.outcome is Outcome.SKIPPED
    assert "134217728" in result.reason


def test_a_variant_that_the_device_lacks_is_skipped(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    job = Job(id=1, token=1, case="copy/f32/n5", mode=Mode.CORRECTNESS, variant="coopmat")
    result = execute(lavapipe, bundle, job)
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "copy has no variant coopmat"


def test_compute_takes_arrays_and_gives_arrays(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    problem = catalogue.problem("add/f32/b1_c1_h3_w5")
    a = np.arange(15, dtype=np.float32).reshape(1, 1, 3, 5)
    outputs, variant = compute(lavapipe, bundle, problem, "auto", {"a": a, "b": a})
    assert variant == "portable"
    assert np.array_equal(outputs["y"], 2 * a)


def own_settings(folder: Path) -> Settings:
    return read({"VKBENCH_CACHE": str(folder), "VKBENCH_DATA": str(folder)})


def test_pipelines_are_kept_on_disk_and_a_broken_file_is_replaced(
    drivers: dict[str, str], lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    job = Job(id=1, token=1, case="copy/f32/n5", mode=Mode.CORRECTNESS)

    def run() -> bytes:
        with VulkanDevice.open("llvmpipe", own_settings(tmp_path)) as device:
            assert execute(device, bundle, job).outcome is Outcome.PASSED
            path = device.cache.path
        return path.read_bytes()

    whole = run()
    (path,) = (tmp_path / "pipelines").glob("*.bin")
    for broken in (b"", b"rubbish", whole[:-1], whole[:40] + bytes(len(whole) - 40)):
        path.write_bytes(broken)
        assert run() == whole


def test_without_timestamps_the_host_is_the_clock(
    lavapipe: VulkanDevice, bundle: Bundle, gpu_settings: Settings
) -> None:
    case = "copy/f32/n65537"
    job = Job(id=1, token=1, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.05, noise=0.1)
    with VulkanDevice.open("llvmpipe", gpu_settings) as device:
        device.logical.tick_mask = 0  # as of a queue family without valid bits
        result = execute(device, bundle, job)
    assert result.outcome is Outcome.PASSED, result.reason
    assert [timing.clock for timing in result.timings] == ["host", "host"]
    by_gpu = execute(lavapipe, bundle, job).timings
    assert result.timings[0].seconds < 20 * by_gpu[0].seconds


def test_nothing_is_left_after_thousands_of_jobs(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    job = Job(id=1, token=1, case="copy/f32/n31", mode=Mode.CORRECTNESS)
    timed = Job(id=1, token=1, case=job.case, mode=Mode.PERFORMANCE, measure_seconds=0.001)

    def rounds(count: int) -> int:
        for _ in range(count):
            assert execute(lavapipe, bundle, job).outcome is Outcome.PASSED
        assert execute(lavapipe, bundle, timed).outcome is Outcome.PASSED
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = rounds(500)
    handles = +lavapipe.live
    after = rounds(2500)
    assert +lavapipe.live == handles
    assert after - before < 8 << 10  # KiB
