"""Rates, times left and the words about them: numbers alone."""

from __future__ import annotations

import pytest

from vkbench_cli.show.pace import (
    Lane,
    Pace,
    by_lane,
    clock,
    format_rate,
    remaining,
    sentence,
    sum_of,
)


def lane(done: int, left: float = 0.0, name: str = "H200", **ended: int) -> Lane:
    return Lane(name=name, total=100, done=done, left_seconds=left, **ended)


def test_nothing_is_known_until_something_has_ended() -> None:
    pace = Pace()
    assert (pace.rate, pace.seconds_left(0.0)) == (None, None)
    pace.see(0.0, lane(40))
    pace.see(5.0, lane(40))
    assert (pace.rate, pace.seconds_left(5.0)) == (None, None)


def test_the_rate_counts_from_the_first_look_and_not_what_was_done_before() -> None:
    pace = Pace()
    pace.see(0.0, lane(40))
    pace.see(10.0, lane(60))
    assert pace.rate == 2.0
    assert pace.seconds_left(10.0) == 20.0


def test_the_time_left_follows_the_estimates_where_jobs_differ() -> None:
    pace = Pace()
    pace.see(0.0, lane(0, left=100.0))  # the last half of the jobs is nine tenths of the work
    pace.see(10.0, lane(50, left=90.0))
    assert pace.seconds_left(10.0) == 90.0
    assert pace.seconds_left(30.0) == 70.0  # while a long job runs
    assert pace.seconds_left(500.0) == 0.0


def test_a_rate_is_that_of_the_last_minute() -> None:
    pace = Pace()
    for second in range(0, 100, 10):
        pace.see(float(second), lane(0))
    pace.see(100.0, lane(30))
    pace.see(110.0, lane(60))
    assert pace.rate == pytest.approx(1.0)


def test_words() -> None:
    assert [clock(seconds) for seconds in (0, 0.2, 59.5, 80, 7380)] == [
        "0:00", "0:01", "1:00", "1:20", "2:03:00",
    ]  # fmt: skip
    assert [format_rate(rate) for rate in (None, 65.3, 3.14, 0.2)] == [
        "",
        "65/s",
        "3.1/s",
        "12.0/min",
    ]
    assert [remaining(seconds) for seconds in (None, 80)] == ["", "1:20 left"]


def test_a_sentence_says_what_went_badly_and_no_more() -> None:
    assert sentence("run 3", [lane(40)], None, None) == "run 3: 40 of 100 done"
    two = [lane(40, wrong=1), lane(20, name="A100", failed=2)]
    assert sentence("run 3", two, 3.14, 80.0) == (
        "run 3: 60 of 200 done, 1 wrong, 2 failed, 3.1/s, 1:20 left"
    )
    assert by_lane(two) == " (H200 40 of 100, A100 20 of 100)"
    assert by_lane(two[:1]) == by_lane([lane(100), lane(100)]) == ""
    assert by_lane([lane(1, name=str(n)) for n in range(6)]).endswith("3 1 of 100, 2 more)")


def test_a_sum_is_done_when_all_are() -> None:
    assert not sum_of([lane(100), lane(99)], "").is_done
    assert sum_of([lane(100), lane(100)], "").is_done
    assert sum_of([], "").is_done
