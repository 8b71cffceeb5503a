"""Phases of a job: each has the time that no phase within it has."""

from __future__ import annotations

import pytest

from planted_clock import Clock
from vkbench.job import Arm, Job, Mode, Pair
from vkbench.result import Result
from vkbench_shaders.bundle import packaged
from vkbench_worker import phases
from vkbench_worker.phases import phase, record_phases
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.timing.paired import execute_pair

PREPARING = {"choice", "inputs", "reference", "pipelines", "buffers"}
CHECKING = PREPARING | {"launches", "judging", "closing"}
TIMING = {"warm_up", "hot", "cold", "sets", "readings"}
PAIRED = {"warm_up", "old", "new", "sets", "readings"}


def test_an_inner_phase_takes_its_time_from_the_outer_one(clock: Clock) -> None:
    with record_phases() as seconds:
        clock.now += 64
        with phase("outer"):
            clock.now += 1
            with phase("inner"):
                clock.now += 2
            clock.now += 4
        with phase("inner"):
            clock.now += 8
    assert seconds == {"outer": 5, "inner": 10}


def test_a_phase_ends_with_the_error_in_it(clock: Clock) -> None:
    def fail() -> None:
        with phase("broken"):
            clock.now += 1
            raise ValueError("broken")

    with record_phases() as seconds:
        with pytest.raises(ValueError, match="broken"):
            fail()
        clock.now += 2
    assert seconds == {"broken": 1}


def test_jobs_do_not_mix_and_phases_without_one_are_free(clock: Clock) -> None:
    with phase("alone"):
        clock.now += 1
    with record_phases() as first, phase("one"):
        clock.now += 1
    with record_phases() as second, phase("other"):
        clock.now += 2
    assert (first, second) == ({"one": 1}, {"other": 2})


def spent_of(result: Result) -> dict[str, float]:
    return {
        name.removeprefix(phases.PREFIX): seconds
        for name, seconds in result.telemetry.items()
        if name.startswith(phases.PREFIX)
    }


@pytest.mark.parametrize(
    ("mode", "width", "names"),
    [(Mode.CORRECTNESS, 127, CHECKING), (Mode.PERFORMANCE, 131, CHECKING | TIMING)],
)
def test_a_result_says_where_its_seconds_went(mode: Mode, width: int, names: set[str]) -> None:
    case = f"add/f32/b1_c1_h17_w{width}"  # one that no other test has had prepared
    job = Job(id=1, token=1, case=case, mode=mode, measure_seconds=0.05)
    result = execute(NullDevice(), packaged(), job)
    spent = spent_of(result)
    assert spent.keys() == names
    assert all(seconds >= 0 for seconds in spent.values())
    assert sum(spent.values()) <= result.seconds


@pytest.mark.parametrize("metric", ["hot", "cold"])
def test_a_pair_says_so_too(metric: str) -> None:
    case = "add/f32/b1_c1_h17_w137"
    job = Job(
        id=1,
        token=1,
        case=case,
        mode=Mode.PAIRED,
        pair=Pair(old=Arm(name=""), metric=metric),
        measure_seconds=0.05,
    )
    result = execute_pair(NullDevice(), packaged(), packaged(), job)
    spent = spent_of(result)
    assert spent.keys() >= (CHECKING | PAIRED) - {"inputs", "reference"}  # may be on the shelf
    assert 0.9 * result.seconds <= sum(spent.values()) <= result.seconds
