"""A peer and our kernel in turns: what is asked when, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from threading import Barrier

import pytest

from vkbench.job import Arm, ArmKind, Job, Mode, Outcome, Pair
from vkbench.result import HOT, Result, Timing, pack_samples
from vkbench_worker.peers.turns import KNOWN_WELL, in_turns, pair_in_turns
from vkbench_worker.timing.statistics import interval

JOB = Job(id=7, token=3, case="c", mode=Mode.PEER, variant="numpy", measure_seconds=0.6)


def timing(samples: Sequence[float], stop: str = "noise") -> Timing:
    around = interval(samples)
    return Timing(
        metric="hot",
        seconds=median(samples),
        mad=0.0,
        low=around.low,
        high=around.high,
        confidence=around.confidence,
        best=min(samples),
        count=len(samples),
        launches=3,
        stop=stop,
        clock="host",
        bytes_moved=8,
        flops=4,
        samples=pack_samples(samples),
    )


def passed(samples: Sequence[float], stop: str = "noise", **more: str) -> Result:
    result = Result(job=7, token=3, outcome=Outcome.PASSED, seconds=1.0, started=5.0)
    return replace(result, timings=(timing(samples, stop),), **more)  # type: ignore[arg-type]


class Side:
    """Answers one after the other, and what was asked."""

    def __init__(self, asked: list[tuple[str, Job]], name: str, *answers: Result | None) -> None:
        self._asked, self._name, self._answers = asked, name, iter(answers)

    def __call__(self, job: Job) -> Result | None:
        self._asked.append((self._name, job))
        return next(self._answers)


def test_both_are_asked_in_turns_and_summed_up_alike() -> None:
    asked: list[tuple[str, Job]] = []
    brief = replace(JOB, limit_seconds=5)  # a second round would end after 6
    more = {"variant": "tiled", "kernel_sha": "k", "bundle": "b"}
    ours = Side(asked, "ours", passed([4, 4, 6, 6], "time", **more))
    version = "version=2"
    theirs = Side(
        asked, "theirs", passed([1, 1], settings=version), passed([3, 3], settings=version)
    )
    result = in_turns(brief, ours, theirs)
    assert [name for name, _ in asked] == ["theirs", "ours", "theirs"]
    assert {(job.mode, job.variant, job.hot_only) for _, job in asked} == {
        (Mode.PERFORMANCE, "auto", True)
    }
    assert [job.measure_seconds for _, job in asked] == pytest.approx([0.3, 0.6, 0.3])
    assert result
    assert (result.outcome, result.variant) == (Outcome.PASSED, "numpy")
    assert (result.kernel_sha, result.bundle) == ("k", "b")
    assert result.settings == "version=2,ours=tiled"
    hot, mine = result.timings
    assert [(each.side, each.seconds, each.count) for each in result.timings] == [
        ("theirs", 2, 4),
        ("ours", 5, 4),
    ]
    assert (hot.stop, mine.stop) == ("noise", "time")


def test_the_phases_of_all_visits_are_told() -> None:
    told = {"spent_hot": 0.5, "spent_canary": 2.0, "sm_mhz": 1980.0}
    theirs = replace(passed([1, 1]), telemetry={"spent_hot": 0.25, "cpu_mhz": 7.0})
    ours = replace(passed([4, 4]), telemetry=told)
    result = in_turns(JOB, Side([], "ours", ours), Side([], "theirs", theirs, theirs))
    assert result
    assert result.seconds == 3.0
    assert result.telemetry == {"spent_hot": 1.0, "spent_canary": 2.0, "sm_mhz": 1980.0}


def test_a_cpu_takes_several_rounds_in_the_same_time() -> None:
    asked: list[tuple[str, Job]] = []
    result = in_turns(
        JOB,
        Side(asked, "ours", *[passed([4, 4] * 2)] * 3),
        Side(asked, "theirs", *[passed([1, 1])] * 6),
        rounds=3,
    )
    assert result
    assert [timing.count for timing in result.timings] == [12, 12]
    assert [job.measure_seconds for _, job in asked] == pytest.approx([0.1, 0.2, 0.1] * 3)


@pytest.mark.parametrize(
    ("limit", "spread", "rounds"),
    [
        (60, 0.019, 1),
        (60, 0.021, 4),  # never known well: as often as may be
        (11, 0.021, 3),  # 3 s each
    ],
)
def test_rounds_go_on_until_both_medians_are_known_well(
    limit: float, spread: float, rounds: int
) -> None:
    job = replace(JOB, limit_seconds=limit)
    ours, theirs = [4 * (1 - spread), 4, 4 * (1 + spread)], [1.0, 1.0, 1.0]
    result = in_turns(
        job,
        Side([], "ours", *[passed(ours * 2)] * rounds),
        Side([], "theirs", *[passed(theirs)] * (2 * rounds)),
    )
    assert result
    assert [each.count for each in result.timings] == [6 * rounds] * 2


def test_a_clock_that_climbed_during_the_first_visit_does_not_stay_in_the_result() -> None:
    """Half of the peer's first samples are slow: rounds go on until the median is that of all."""
    climbing, up = passed([3.0, 2.0, 1.5, 1.0, 1.0, 1.0]), passed([1.0] * 6)
    result = in_turns(
        JOB,
        Side([], "ours", *[passed([4.0] * 12)] * 4),
        Side([], "theirs", climbing, *[up] * 7),
    )
    assert result
    [theirs, _] = result.timings
    assert theirs.seconds == 1.0
    assert (theirs.high - theirs.low) / 2 <= KNOWN_WELL


def failed(outcome: Outcome, reason: str) -> Result:
    return Result(job=7, token=3, outcome=outcome, reason=reason)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.SKIPPED, "it has no conv2d"),
        (Outcome.WRONG, "numpy wrong: it has no conv2d"),
        (Outcome.CRASHED, "numpy crashed: it has no conv2d"),
    ],
)
def test_what_a_peer_fails_at_is_skipped_and_ours_is_not_asked(
    outcome: Outcome, reason: str
) -> None:
    asked: list[tuple[str, Job]] = []
    theirs = Side(asked, "theirs", failed(outcome, "it has no conv2d"))
    result = in_turns(JOB, Side(asked, "ours"), theirs)
    assert result
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, reason)
    assert len(asked) == 1


def test_our_own_failure_stays_one() -> None:
    asked: list[tuple[str, Job]] = []
    ours = Side(asked, "ours", failed(Outcome.WRONG, "NMSE"))
    result = in_turns(JOB, ours, Side(asked, "theirs", passed([1, 1])))
    assert result
    assert (result.outcome, result.reason, result.timings) == (Outcome.WRONG, "ours: NMSE", ())


def test_nothing_comes_of_a_job_that_is_cancelled() -> None:
    asked: list[tuple[str, Job]] = []
    assert in_turns(JOB, Side(asked, "ours", None), Side(asked, "theirs", passed([1, 1]))) is None


PAIR = replace(
    JOB,
    mode=Mode.PAIRED,
    variant="ggml-vulkan",
    bundle="new",
    arm_kind=ArmKind.BUILD,
    pair=Pair(old=Arm(name="old", kind=ArmKind.BUILD), metric=HOT),
)


class Build(Side):
    """A side that checks a case only while the other one does so too."""

    def __init__(self, asked: list[tuple[str, Job]], name: str, both: Barrier, *answers: Result):
        super().__init__(asked, name, *answers)
        self._both = both

    def __call__(self, job: Job) -> Result | None:
        if job.mode is Mode.CORRECTNESS:
            self._both.wait(timeout=60)
        return super().__call__(job)


CHECKED = Result(job=7, token=3, outcome=Outcome.PASSED)


def test_builds_that_meet_a_case_first_check_it_at_the_same_time() -> None:
    asked: list[tuple[str, Job]] = []
    both = Barrier(2)
    no_memory = failed(Outcome.ERROR, "not enough memory for both")
    result = pair_in_turns(
        PAIR,
        {
            "old": Build(asked, "old", both, CHECKED, passed([1, 1]), passed([1, 1])),
            "new": Build(asked, "new", both, no_memory, passed([2, 2])),
        },
        is_new=True,
    )
    assert result
    assert {name for name, job in asked[:2] if job.mode is Mode.CORRECTNESS} == {"old", "new"}
    assert [name for name, _ in asked[2:]] == ["old", "new", "old"]
    assert {timing.side: timing.seconds for timing in result.timings} == {"old": 1, "new": 2}
    spent = result.telemetry["spent_checks"]
    assert 0 < spent < 60
    assert result.seconds == 3 + spent


def test_a_build_that_hangs_at_its_check_is_not_asked_again() -> None:
    asked: list[tuple[str, Job]] = []
    both = Barrier(2)
    hung = failed(Outcome.TIMED_OUT, "no answer within 9 s")
    result = pair_in_turns(
        PAIR,
        {"old": Build(asked, "old", both, CHECKED), "new": Build(asked, "new", both, hung)},
        is_new=True,
    )
    assert result
    assert (result.outcome, result.reason) == (Outcome.TIMED_OUT, "new: no answer within 9 s")
    assert len(asked) == 2
