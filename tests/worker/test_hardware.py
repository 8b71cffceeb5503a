"""Two devices of one piece of hardware: what is timed on one is timed alone."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from planted_runner import events_path
from vkbench.job import Job, Mode
from vkbench.settings import Settings, settings
from vkbench_worker.owner.hardware import Hardware
from vkbench_worker.owner.supervisor import Supervisor

PLANTED = Path(__file__).parents[1] / "planted"
DEVICES = ("0", "1")
CHUNKS, JOBS = 3, 3
ACT = "sleep/f32/n20"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose runners say that all devices are the same hardware."""
    monkeypatch.setenv("PYTHONPATH", str(PLANTED), prepend=os.pathsep)
    return replace(settings(), runner="shared_runner", host="here")


@pytest.fixture
def mixed(planted: Settings) -> Settings:
    """Settings whose runners say that device 0 is the CPU, and the others are GPUs."""
    return replace(planted, runner="mixed_runner")


def work(
    ours: Settings, *modes: Mode, devices: Sequence[str] = DEVICES
) -> list[tuple[float, float, str]]:
    """Chunks of jobs on devices at once, each in a mode; when each began and ended, and where."""
    ready = threading.Barrier(len(devices))

    def serve(device: str, mode: Mode) -> None:
        with Supervisor(device, ours) as supervisor:
            supervisor.start()
            ready.wait(30)
            for chunk in range(CHUNKS):
                ids = range(1 + chunk * JOBS, 1 + (chunk + 1) * JOBS)
                jobs = [Job(id=n, token=1, case=ACT, mode=mode) for n in ids]
                supervisor.run(jobs, lambda result: None)

    threads = [
        threading.Thread(target=serve, args=each) for each in zip(devices, modes, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(_spans(events_path(ours).read_text()))


def _spans(events: str) -> Iterator[tuple[float, float, str]]:
    began: dict[tuple[str, str], float] = {}
    for line in events.splitlines():
        kind, device, job, _, at, _ = line.split()
        if kind == "start":
            began[device, job] = float(at)
        else:
            yield began[device, job], float(at), device


def test_timed_jobs_of_two_devices_never_overlap_and_take_turns(planted: Settings) -> None:
    spans = work(planted, Mode.PERFORMANCE, Mode.PERFORMANCE)
    assert len(spans) == len(DEVICES) * CHUNKS * JOBS
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    order = [device for _, _, device in spans]
    assert order[0] != order[-1]
    assert len(set(order[: 2 * JOBS])) == 2, "one device was kept waiting"


def test_checks_go_side_by_side(planted: Settings) -> None:
    spans = work(planted, Mode.CORRECTNESS, Mode.CORRECTNESS)
    assert overlap(spans)


def overlap(spans: Sequence[tuple[float, float, str]]) -> bool:
    """Whether jobs of two devices ran at one time."""
    pairs = pairwise(spans)
    return any(after[0] < before[1] and after[2] != before[2] for before, after in pairs)


@pytest.mark.parametrize("mode", [Mode.CORRECTNESS, Mode.PERFORMANCE])
def test_what_a_cpu_driver_times_is_not_disturbed_by_the_work_for_gpus(
    mixed: Settings, mode: Mode
) -> None:
    spans = work(mixed, Mode.PERFORMANCE, mode)
    keys = {device for _, _, device in spans}
    assert len(keys) == len(DEVICES)
    assert len(spans) == len(DEVICES) * CHUNKS * JOBS
    assert not overlap(spans)


def test_gpus_are_timed_side_by_side(mixed: Settings) -> None:
    assert overlap(work(mixed, Mode.PERFORMANCE, Mode.PERFORMANCE, devices=("1", "2")))


def test_who_leaves_waits_no_longer(tmp_path: Path) -> None:
    one, other = Hardware(tmp_path, "cpu"), Hardware(tmp_path, "cpu")
    end = time.monotonic() + 0.1
    with one.hold(alone=False, leaving=lambda: False) as is_held:
        assert is_held
        with other.hold(alone=True, leaving=lambda: time.monotonic() > end) as is_held:
            assert not is_held
    with other.hold(alone=True, leaving=lambda: False) as is_held:
        assert is_held
