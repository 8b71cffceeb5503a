"""Which configuration wins: the estimated one, unless another is faster beyond the noise."""

from __future__ import annotations

import pytest

from vkbench.job import JobState
from vkbench_db.upkeep.tuning import Trial
from vkbench_detection.tune.winners import Standing, standings


def trial(
    configuration: str, seconds: float | None, *, state: str = JobState.PASSED, spread: float = 0.01
) -> Trial:
    return Trial(
        device_id=1,
        device="0" * 12,
        device_name="d",
        case_id=1,
        case="sum/f32/b1_c1_h64_w4096",
        configuration=configuration,
        position=0,
        state=state,
        reason="" if seconds else "because",
        environment="e",
        seconds=seconds,
        low=seconds and seconds * (1 - spread),
        high=seconds and seconds * (1 + spread),
        finished_at=1.0,
    )


def standing(*trials: Trial) -> Standing:
    [found] = standings(trials).values()
    return found


def best(*trials: Trial) -> str:
    found = standing(*trials).best
    return found.configuration if found else ""


def test_the_fastest_of_all_rounds_wins() -> None:
    once = [trial("a", 1.0), trial("b", 0.5), trial("c", 0.8)]
    again = [trial("a", 1.02), trial("b", 0.52), trial("c", 0.79)]
    assert best(*once, *again) == "b"
    found = standing(*once, *again)
    assert found.estimated
    assert found.estimated.configuration == "a"
    assert [each.configuration for each in found.timed] == ["a", "b", "c"]
    assert found.timed[1].typical == pytest.approx(0.51)


@pytest.mark.parametrize(
    ("estimated", "other", "spread"),
    [
        ((1.0, 1.0), (0.99, 0.99), 0.001),  # faster by less than counts
        ((1.0, 1.0), (0.9, 1.01), 0.001),  # not in each round
        ((1.0, 1.0), (0.95, 0.95), 0.05),  # their intervals meet
    ],
)
def test_what_the_noise_may_have_made_does_not_win(
    estimated: tuple[float, ...], other: tuple[float, ...], spread: float
) -> None:
    trials = [trial("a", seconds, spread=spread) for seconds in estimated]
    trials += [trial("b", seconds, spread=spread) for seconds in other]
    assert best(*trials) == "a"


def test_only_results_that_were_right_in_each_round_count() -> None:
    wrong = [trial("b", 0.5), trial("b", 0.5, state=JobState.WRONG)]
    assert best(trial("a", 1.0), *wrong, trial("c", 0.7)) == "c"
    found = standing(trial("a", 1.0), *wrong)
    assert found.timed[1].seconds == ()
    assert found.timed[1].reason == "wrong: "


def test_without_a_right_result_nothing_wins() -> None:
    found = standing(trial("a", None, state=JobState.SKIPPED))
    assert (found.estimated, found.best) == (None, None)
    assert found.timed[0].reason == "skipped: because"
