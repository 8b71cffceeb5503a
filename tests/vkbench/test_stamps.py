"""Stamps rise whatever clocks do, and what is old or was heard before is stale."""

from __future__ import annotations

import time

import pytest

from vkbench.messages.stamps import UNSTAMPED, Newest, Stale, Stamp, Stamps, check_age


class PlantedClock:
    """The clock of a Redis."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> tuple[int, int]:
        return int(self.now), round(self.now % 1 * 1e6)


def test_numbers_rise_over_restarts_and_with_a_clock_that_goes_back() -> None:
    clock = PlantedClock(1000.5)
    first = Stamps(clock)
    numbers = [first.next().number for _ in range(3)]
    clock.now += 1
    numbers += [Stamps(clock).next().number]  # the next process
    again = Stamps(clock)
    numbers += [again.next().number]
    clock.now -= 500  # another server took over
    stamp = again.next()
    numbers += [stamp.number]
    assert numbers == sorted(numbers)
    assert stamp.sent == clock.now


@pytest.mark.parametrize("age", [-9, 0, 3, 13])
def test_what_is_under_way_for_a_while_is_fresh(age: float) -> None:
    check_age(Stamp(sent=1000.0 - age, number=1), 1000.0, 4)


@pytest.mark.parametrize("age", [-11, 15, 3600])
def test_what_is_old_or_of_the_future_is_stale(age: float) -> None:
    with pytest.raises(Stale, match="it was sent"):
        check_age(Stamp(sent=1000.0 - age, number=1), 1000.0, 4)


def test_what_says_no_time_is_stale() -> None:
    with pytest.raises(Stale, match="older version"):
        check_age(UNSTAMPED, 1000.0, 4)


def test_only_the_newest_counts_for_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    newest = Newest()
    for number in (5, 5, 7):
        newest.check("a", Stamp(sent=1.0, number=number))
    newest.check("b", Stamp(sent=1.0, number=1))
    with pytest.raises(Stale, match="older than what was heard"):
        newest.check("a", Stamp(sent=1.0, number=6))
    newest.end("a")
    newest.end("c")  # of which nothing was heard
    with pytest.raises(Stale):
        newest.check("a", Stamp(sent=1.0, number=7))
    newest.check("a", Stamp(sent=1.0, number=9))
    newest.check("c", Stamp(sent=1.0, number=1))
    now = 200.0  # a message of that time is too old by now: a clock may have gone back
    newest.check("a", Stamp(sent=1.0, number=2))
