"""The canary: taken when it is due, twice where it is unlike the one before, and sent along."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_clock import Clock
from vkbench import calibration
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle, UnknownBundle, packaged
from vkbench_shaders.kernel import Problem
from vkbench_worker.protocol import line_of, read_line
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.inbox import Inbox
from vkbench_worker.runner.main import serve
from vkbench_worker.runtime.null import NullDevice, Shown, run_reference
from vkbench_worker.timing import canary as canaries
from vkbench_worker.timing.canary import LEAST_PAUSE_SECONDS, MOST_SHARE, CanaryTimer


class Stopwatch:
    """Timings of the canary, as given; a timing takes so long."""

    def __init__(self, clock: Clock, *seconds: float, takes: float = 0.0) -> None:
        self.taken = 0
        self._clock = clock
        self._takes = takes
        self._seconds: Iterator[float] = iter(seconds)

    def __call__(self, *_: object) -> Any:
        self.taken += 1
        self._clock.now += self._takes

        class Found:
            seconds = next(self._seconds)

        return Found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return packaged()


Watched = Callable[..., CanaryTimer]


@pytest.fixture
def watched(clock: Clock, bundle: Bundle, tmp_path: Path) -> Watched:
    """A canary of a device, by the clock that is told the time."""

    def made(device: NullDevice | None = None) -> CanaryTimer:
        return CanaryTimer(device or NullDevice(), lambda sha: bundle, tmp_path / "some", clock)

    return made


def test_it_is_due_at_first_and_then_no_sooner_than_its_share_allows(
    clock: Clock, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Stopwatch(clock, *[1e-3] * 9, takes=0.3)
    monkeypatch.setattr(canaries, "measure_hot", watch)
    found = watched()
    found.look()
    assert watch.taken == 2  # there was none before
    pause = 0.6 / MOST_SHARE
    assert pause > LEAST_PAUSE_SECONDS
    clock.now += pause - 0.1
    found.look()
    assert watch.taken == 2
    clock.now += 0.2
    found.look()
    assert watch.taken == 3  # like the one before


def test_it_waits_its_least_pause(
    clock: Clock, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Stopwatch(clock, *[1e-3] * 9)
    monkeypatch.setattr(canaries, "measure_hot", watch)
    found = watched()
    for pause, taken in ((0.0, 2), (LEAST_PAUSE_SECONDS - 1, 2), (1.5, 3)):
        clock.now += pause
        found.look()
        assert watch.taken == taken


@pytest.mark.parametrize(("again", "told"), [(1.001e-3, 1.001e-3), (1.2e-3, 1.05e-3)])
def test_one_that_is_unlike_the_last_is_taken_again_and_the_faster_counts(
    clock: Clock, watched: Watched, monkeypatch: pytest.MonkeyPatch, again: float, told: float
) -> None:
    watch = Stopwatch(clock, 1e-3, 1e-3, 1.05e-3, again)
    monkeypatch.setattr(canaries, "measure_hot", watch)
    found = watched()
    found.look()
    clock.now += 60
    found.look()
    assert watch.taken == 4
    assert found.readings[calibration.CANARY_SECONDS] == told


def test_the_next_process_knows_of_it_unless_the_environment_is_another(
    clock: Clock, watched: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watch = Stopwatch(clock, *[1e-3] * 9)
    monkeypatch.setattr(canaries, "measure_hot", watch)
    first = watched()
    first.look()
    clock.now += LEAST_PAUSE_SECONDS - 1
    second = watched()
    assert second.readings == first.readings
    second.look()
    assert watch.taken == 2
    clock.now += 2
    second.look()
    assert watch.taken == 3  # and like the one before
    changed = NullDevice()
    changed.environment = replace(changed.environment, driver_version="1")
    other = watched(changed)
    assert not other.readings
    other.look()
    assert watch.taken == 5
    [file] = (tmp_path / "some").iterdir()
    file.write_text("{")
    assert not watched().readings


def test_a_wrong_one_and_one_without_code_are_none(
    clock: Clock, watched: Watched, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(problem: Problem, shown: Shown) -> None:
        run_reference(problem, shown)
        shown["y"][7:8] += np.float32(1)

    found = watched(NullDevice(wrong))
    found.look()
    assert not found.readings

    def unknown(sha: str) -> Bundle:
        raise UnknownBundle("no such bundle")

    lost: CanaryTimer = CanaryTimer(NullDevice(), unknown, tmp_path / "other", clock)
    lost.look()
    assert not lost.readings
    said = capfd.readouterr().err
    assert "no canary: fma/f32/n65536_r64 is wrong: 1 of 65536 elements" in said
    assert "no canary: no such bundle" in said


def test_a_runner_sends_it_along_with_timed_jobs_alone(bundle: Bundle, watched: Watched) -> None:
    modes = (Mode.CORRECTNESS, Mode.PERFORMANCE, Mode.PERFORMANCE, Mode.CORRECTNESS)
    case = "add/f32/b1_c1_h1_w5"
    jobs = [
        Job(id=number, token=1, case=case, mode=mode, measure_seconds=0.01)
        for number, mode in enumerate(modes, 1)
    ]
    out, into = os.pipe()
    os.write(into, b"".join(map(line_of, jobs)))
    os.close(into)
    answers, device = BytesIO(), NullDevice()
    used: Any = device
    assert serve(used, Inbox(out), answers, lambda sha: bundle, execute, watched(device)) == 0
    os.close(out)
    results = [read_line(line, Result) for line in answers.getvalue().splitlines()]
    assert {result.outcome for result in results} == {Outcome.PASSED}
    told = [
        (result.telemetry.get(calibration.CANARY_AT), result.telemetry.get("canary_seconds"))
        for result in results
    ]
    assert told[0] == told[3] == (None, None)
    assert told[1] == told[2]
    assert told[1][0]
    assert 0 < (told[1][1] or 0) < 10
