"""Steps of the watch: each when it is due, and none that fails stops the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.errors import DatabaseUnreachable
from vkbench_scheduler.watch.timetable import Watch, WatchStep, steps, telling


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{tmp_path / 'x.db'}", create=True) as database:
        yield database


def test_a_step_that_fails_stops_no_other(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[str] = []

    def fail(database: Database, now: float) -> None:
        raise ValueError("no")

    def act(database: Database, now: float) -> None:
        taken.append("second")

    first = WatchStep(name="first", seconds=0.0, act=fail)
    watch = Watch(database, (first, WatchStep(name="second", seconds=0.0, act=act)))
    watch.turn()
    watch.turn()
    assert taken == ["second", "second"]
    assert [record.message for record in caplog.records] == ["step_first_failed"] * 2


def test_an_outage_is_the_caller_s_to_wait_for(database: Database) -> None:
    def fail(database: Database, now: float) -> None:
        raise DatabaseUnreachable

    with pytest.raises(DatabaseUnreachable):
        Watch(database, (WatchStep(name="first", seconds=0.0, act=fail),)).turn()


def test_steps_wait_for_their_time(database: Database) -> None:
    taken: list[float] = []
    step = WatchStep(name="slow", seconds=60.0, act=lambda database, now: taken.append(now))
    watch = Watch(database, (step,))
    for _ in range(3):
        watch.turn()
    assert len(taken) == 1


def test_nothing_happens_in_an_empty_lab(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = (*steps(), *telling(Settings(data=tmp_path, cache=tmp_path)))
    assert len({row.name for row in rows}) == len(rows)
    for _ in range(2):
        Watch(database, rows).turn()
    assert caplog.records == []
