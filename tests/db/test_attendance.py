"""Who is there: schedulers that say so, workers that they see, and for how long that counts."""

from __future__ import annotations

import pytest

from databases import Lab
from vkbench.job import JobState
from vkbench_db.upkeep.attendance import (
    FORGOTTEN_SECONDS,
    LATELY_SECONDS,
    Attendance,
    attendance,
    beat,
    leave,
)
from vkbench_db.work import store


def found(lab: Lab, run: int) -> Attendance:
    with lab.database.reading() as tx:
        return attendance(tx, run=run)


def test_a_scheduler_is_there_from_its_first_beat_until_it_leaves(lab: Lab) -> None:
    run = lab.submit(lab.add_device(), 1)
    assert found(lab, run).scheduler_seen is None
    assert not found(lab, run).has_scheduler(lab.now)
    for name, at in (("a:1", lab.now), ("b:2", lab.now - 30), ("a:1", lab.now + 5)):
        with lab.database.transaction() as tx:
            beat(tx, name, at)
    seen = found(lab, run)
    assert seen.scheduler_seen == pytest.approx(lab.now + 5)
    assert seen.has_scheduler(lab.now + 5 + LATELY_SECONDS)
    assert not seen.has_scheduler(lab.now + 6 + LATELY_SECONDS)
    with lab.database.transaction() as tx:
        leave(tx, "a:1")
    assert found(lab, run).scheduler_seen == pytest.approx(lab.now - 30)


def test_a_scheduler_that_died_long_ago_is_forgotten(lab: Lab) -> None:
    run = lab.submit(lab.add_device(), 1)
    with lab.database.transaction() as tx:
        beat(tx, "dead:1", lab.now - FORGOTTEN_SECONDS - 1)
        beat(tx, "here:2", lab.now)
        leave(tx, "here:2")
    assert found(lab, run).scheduler_seen is None


def test_the_stations_are_those_with_unfinished_jobs(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader", "beta")
    run = lab.submit(first, 2)
    other = lab.submit(second, 1)
    [station] = found(lab, run).stations
    assert (station.name, station.host, station.paused) == ("llvmpipe", "alpha", False)
    assert station.is_served(lab.now + LATELY_SECONDS)
    assert not station.is_served(lab.now + LATELY_SECONDS + 1)
    with lab.database.transaction() as tx:
        store.pause(tx, first, store.Pause())
    assert found(lab, run).stations[0].paused
    with lab.database.transaction() as tx:
        store.cancel(tx, run, lab.now)
        assert store.run_progress(tx, run).counts == {JobState.CANCELLED: 2}
    assert found(lab, run).stations == []
    assert [each.host for each in found(lab, other).stations] == ["beta"]
    with lab.database.reading() as tx:
        both = attendance(tx, devices=[first, second]).stations
    assert [each.key for each in both] == [first, second]
