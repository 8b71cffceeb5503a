"""Night by night under the scheduler's own steps: where changes lie, and what they are held to.

Pairs are simulated; all else is what a lab runs. `vkbench selftest detector` tries many more.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

import pytest
from sqlalchemy import text

from databases import Lab, one_engine
from planted_watch import Watched
from vkbench_detection.statistics.synthetic import KINDS

NOISES = {noise.name: noise for noise in KINDS}
QUIET = 30  # nights before a kernel step


def rows(lab: Lab, question: str) -> list[tuple[Any, ...]]:
    with lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]


def stepping(lab: Lab, steps: Mapping[int, int], factor: float, **more: Any) -> Watched:
    """A build every fourth night, of which one slows each case; others change its kernel too."""
    builds = range(2, 50, 4)

    def level(case: int, night: int, build: int, driver: int) -> float:
        return log(factor) if build >= sum(each <= steps[case] for each in builds) else 0.0

    kernels = {case: (14, 26, at) for case, at in steps.items()}
    return Watched(
        lab, cases=len(steps), nights=50, levels=level, builds=builds, kernels=kernels, **more
    )


@one_engine
def test_a_slower_kernel_is_blamed_by_the_bundle_that_brought_it(lab: Lab) -> None:
    """Most first alarms come too late, between two results of one bundle."""
    steps = {case: QUIET + 4 * (case % 2) for case in range(8)}
    watched = stepping(lab, steps, 1.05, noise=NOISES["gauss 2 %"], seed=1)
    watched.pass_by(48)
    changes = watched.changes("WHERE change_point.state = 'confirmed'")
    found = {
        case
        for case, night in steps.items()
        for change in changes
        if watched.is_of(change, case)
        and (change.cause, change.direction, change.after_night) == ("kernel", "slower", night)
        and change.before_bundle != change.after_bundle
    }
    assert len(found) >= 7
    assert len(changes) <= 9


def drivers(lab: Lab, nights: Mapping[int, int], seed: int = 1) -> Watched:
    """Two cases that take 8 % more by driver 1."""
    return Watched(
        lab,
        noise=NOISES["gauss 1 %"],
        cases=2,
        nights=max(nights) + 20,
        levels=lambda case, night, build, driver: log(1.08) * driver,
        drivers=nights,
        seed=seed,
    )


@one_engine
@pytest.mark.parametrize("good", [5, 12])
def test_a_driver_that_comes_back_is_slower_again(lab: Lab, good: int) -> None:
    """Before it are the good nights since it was undone, and not the bad ones before those."""
    watched = drivers(lab, {0: 0, 30: 1, 52: 0, 52 + good: 1})
    watched.pass_by(watched.nights)
    found = watched.changes("WHERE change_point.state = 'confirmed'")
    at = [(change.after_night, change.direction, change.cause) for change in found]
    again = [place for place in at if place == (52 + good, "slower", "environment")]
    assert len(again) == 2
    assert len(at) == 6
    open_ones = "SELECT direction, cause FROM regression WHERE state = 'open'"
    assert ("slower", "environment") in rows(lab, open_ones)


@one_engine
@pytest.mark.parametrize("bad", [6, 10])
def test_a_fix_that_comes_soon_is_held_against_the_bad_nights(lab: Lab, bad: int) -> None:
    watched = drivers(lab, {0: 0, 24: 1, 24 + bad: 0})
    watched.pass_by(watched.nights)
    faster = watched.changes("WHERE change_point.direction = 'faster'")
    assert {(change.after_night, change.state) for change in faster} == {(24 + bad, "confirmed")}
    slower = "SELECT state FROM regression WHERE direction = 'slower'"
    assert rows(lab, slower) == [("verified",)]
