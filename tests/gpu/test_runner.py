"""The runner as a process: its lines, its lock, its ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import Settings, read, settings
from vkbench_shaders.bundle import Bundle
from vkbench_worker.protocol import (
    DEVICE_LOST_STATUS,
    FAILED_STATUS,
    MALFORMED_STATUS,
    Ready,
    line_of,
    lock_path,
    read_line,
)
from vkbench_worker.runner import main as runner
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.inbox import Inbox
from vkbench_worker.runner.main import serve
from vkbench_worker.runtime.vulkan import device as devices
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Start = Callable[..., subprocess.Popen[bytes]]
JOB = Job(id=7, token=3, case="copy/f32/n31", mode=Mode.CORRECTNESS)

PLANTED = """
import os, sys
from vkbench_worker.runner import main as runner
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.errors import DeviceLost

def wrapped(device, bundle, job):
    os.write(1, b"driver chatter\\n")
    if job.id == 13:
        def lost(*commands):
            raise DeviceLost("vkQueueSubmit: VK_ERROR_DEVICE_LOST")
        device.transfers.flush = lost
    return execute(device, bundle, job)

sys.exit(runner.main(wrapped))
"""


@pytest.fixture
def start(lavapipe: VulkanDevice) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(device: str = "llvmpipe", code: str = "") -> subprocess.Popen[bytes]:
        program = ["-c", code] if code else ["-m", "vkbench_worker.runner.main"]
        command = [sys.executable, *program, "--device", device, "--parent", str(os.getpid())]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()
        for end in (process.stdin, process.stdout, process.stderr):
            assert end
            end.close()


def ends(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin
    assert process.stdout
    return process.stdin, process.stdout


def test_jobs_are_answered_in_order_until_the_input_ends(
    start: Start, lavapipe: VulkanDevice
) -> None:
    process = start()
    lines, answers = ends(process)
    ready = read_line(answers.readline(), Ready)
    assert ready.facts == lavapipe.facts
    jobs = [
        JOB,
        Job(id=8, token=1, case="copy/f32/n31", mode=Mode.CORRECTNESS, bundle="ab" * 32),
        Job(id=9, token=1, case="no_such/f32/n31", mode=Mode.CORRECTNESS),
        Job(id=10, token=1, case="add/f32/b1_c1_h1_w5", mode=Mode.CORRECTNESS),
    ]
    lines.write(b"".join(map(line_of, jobs)))
    lines.close()
    results = [read_line(answers.readline(), Result) for _ in jobs]
    assert [(r.job, r.token) for r in results] == [(job.id, job.token) for job in jobs]
    assert [r.outcome for r in results] == [
        Outcome.PASSED,
        Outcome.ERROR,
        Outcome.ERROR,
        Outcome.PASSED,
    ]
    assert "unknown bundle" in results[1].reason
    assert "unknown kernel 'no_such'" in results[2].reason
    assert answers.readline() == b""
    assert process.wait() == 0


def test_a_malformed_line_ends_it(start: Start) -> None:
    process = start()
    lines, answers = ends(process)
    answers.readline()
    lines.write(b'{"id": "seven"}\n')
    lines.flush()
    assert process.wait() == MALFORMED_STATUS
    assert process.stderr
    assert b"malformed Job" in process.stderr.read()


def test_a_lost_device_is_told_and_ends_it(start: Start) -> None:
    process = start(code=PLANTED)
    lines, answers = ends(process)
    read_line(answers.readline(), Ready)
    lost = Job(id=13, token=1, case="copy/f32/n31", mode=Mode.CORRECTNESS)
    lines.write(line_of(JOB) + line_of(lost) + line_of(JOB))
    lines.flush()
    assert read_line(answers.readline(), Result).outcome is Outcome.PASSED
    told = read_line(answers.readline(), Result)
    assert told.outcome is Outcome.DEVICE_LOST
    assert "VK_ERROR_DEVICE_LOST" in told.reason
    assert answers.readline() == b""
    assert process.wait() == DEVICE_LOST_STATUS


def test_a_device_that_does_not_answer_in_time_ends_it(start: Start) -> None:
    process = start()
    lines, answers = ends(process)
    read_line(answers.readline(), Ready)
    case = "mul_mat/f32/m1024_n1024_k1024"
    lines.write(line_of(replace(JOB, case=case, limit_seconds=1e-6)))
    lines.flush()
    told = read_line(answers.readline(), Result)
    assert told.outcome is Outcome.DEVICE_LOST
    assert told.reason == "the device did not finish within 1e-06 s"
    assert process.wait() == DEVICE_LOST_STATUS


def test_it_waits_for_the_lock_of_its_device(start: Start, lavapipe: VulkanDevice) -> None:
    path: Path = lock_path(settings(), lavapipe.facts.key)
    path.parent.mkdir(parents=True)
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
    lines, answers = ends(process)
    assert read_line(answers.readline(), Ready).facts == lavapipe.facts
    with path.open("a") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lines.close()
    assert process.wait() == 0


def test_an_unknown_device_is_one_clear_line(start: Start) -> None:
    process = start("geforce")
    assert process.wait() == FAILED_STATUS
    assert process.stderr
    assert process.stderr.read().startswith(b"unknown device 'geforce'")


CASES = (
    "copy/f32/n31",
    "dequantize/q4_0/m1_k32",
    "dequantize/q8_0/m1_k32",
    "dequantize/iq2_xxs/m1_k256",
    "mul_mat_vec/q4_0/m5_n1_k32",
    "mul_mat_vec/q6_K/m2_n1_k1024",
    "no_such/f32/n31",
    "add/f32/b1_c1_h1_w5",
)


def served(ours: Settings, bundle: Bundle) -> Sequence[tuple[object, ...]]:
    """What lavapipe says to each case, checked and timed."""
    modes = (Mode.CORRECTNESS, Mode.PERFORMANCE)
    work = [replace(JOB, case=c, mode=m, measure_seconds=0.01) for m in modes for c in CASES]
    out, into = os.pipe()
    os.write(into, b"".join(map(line_of, work)))
    os.close(into)
    answers = BytesIO()
    with VulkanDevice.open("llvmpipe", ours) as device:
        assert serve(device, Inbox(out), answers, lambda sha: bundle, execute) == 0
        compiled = device.live["Pipeline"]
    os.close(out)
    made = ("Pipeline", "PipelineLayout", "DescriptorSetLayout", "ShaderModule")
    assert [device.live[kind] for kind in made] == [0, 0, 0, 0]
    results = [read_line(line, Result) for line in answers.getvalue().splitlines()]
    said = [(r.case, r.outcome, r.reason, r.variant, r.verdict, len(r.timings)) for r in results]
    assert compiled == len(CASES) - 1
    return said


def test_pipelines_made_ahead_change_no_result(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ours(name: str) -> Settings:
        return read({f"VKBENCH_{each}": str(tmp_path / name) for each in ("CACHE", "DATA")})

    plain = served(ours("plain"), bundle)
    monkeypatch.setattr(devices, "_threads", lambda facts, settings: 3)
    assert served(ours("ahead"), bundle) == plain
    assert served(ours("ahead"), bundle) == plain  # with what the first one left on disk
    assert [said[1] for said in plain].count(Outcome.PASSED) == 2 * (len(CASES) - 1)


def test_a_cache_that_cannot_be_written_is_said_once_and_stops_nothing(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pipelines").touch()  # where a folder has to be: not even root can write there
    saves = iter(range(100))
    monkeypatch.setattr(runner, "SAVE_SECONDS", 0.0)  # after every job
    monkeypatch.setattr(VulkanDevice, "save_cache", counted(VulkanDevice.save_cache, saves))
    ours = read({"VKBENCH_CACHE": str(tmp_path), "VKBENCH_DATA": str(tmp_path)})
    assert [said[1] for said in served(ours, bundle)].count(Outcome.PASSED) == 2 * (len(CASES) - 1)
    assert next(saves) > len(CASES)
    assert capfd.readouterr().err.count("pipeline cache is not saved") == 1


def counted(
    save: Callable[[VulkanDevice], None], saves: Iterator[int]
) -> Callable[[VulkanDevice], None]:
    """A way to save that counts how often it was taken."""

    def save_and_count(device: VulkanDevice) -> None:
        save(device)
        next(saves)

    return save_and_count
