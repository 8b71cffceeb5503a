"""States end: suspicions and regressions that no result will decide, and improvements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from databases import ENVIRONMENT, Lab, one_engine
from kept_labs import After
from paired_nights import FIRST, NIGHT, SECOND, Nights, rows
from planted_history import BEGAN, Plan, Step, file_lines
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import import_lines
from vkbench_db.work import store
from vkbench_detection.confirm.fleet import GONE_SECONDS
from vkbench_detection.regress.recoveries import PRAISED_SECONDS
from vkbench_detection.steps import conclude, detect
from vkbench_scheduler.watch import timetable

STATES = "SELECT cause, direction, state FROM regression ORDER BY id"
CHANGES = "SELECT direction, state FROM change_point WHERE state <> 'dismissed'"
LAST_NOTE = "SELECT note FROM regression_event ORDER BY id DESC LIMIT 1"
LAST_CHANGE = "SELECT note FROM change_point_event ORDER BY id DESC LIMIT 1"


@pytest.fixture
def nights(after: After) -> Nights:
    """Twenty-five quiet nights; both bundles are kept."""
    found: Nights = after(quiet_nights)
    return found


def quiet_nights(lab: Lab) -> Nights:
    with lab.database.transaction() as tx:
        for each in (FIRST, SECOND):
            store.store_bundle(tx, each, lab.now)
    made = Nights(lab, lab.add_device(), environment=ENVIRONMENT)
    made.pass_by(25)
    return made


def end(nights: Nights) -> None:
    """What the scheduler does each hour."""
    [step] = [each for each in timetable.steps() if each.name == "end"]
    step.act(nights.lab.database, nights.lab.now)


def test_a_suspicion_on_a_retired_device_becomes_ambiguous(nights: Nights) -> None:
    nights.pass_by(1, 1.1)
    nights.lab.now += GONE_SECONDS - NIGHT
    end(nights)
    assert rows(nights, CHANGES) == [("slower", "suspected")]
    nights.lab.now += NIGHT
    end(nights)
    assert rows(nights, CHANGES) == [("slower", "ambiguous")]
    assert "no worker has measured it again" in rows(nights, LAST_CHANGE)[0][0]


@one_engine
def test_a_suspicion_that_a_worker_will_measure_waits(nights: Nights) -> None:
    nights.pass_by(1, 1.1)
    nights.lab.now += GONE_SECONDS + NIGHT
    nights.announce()
    end(nights)
    assert rows(nights, CHANGES) == [("slower", "suspected")]


def test_a_regression_of_a_retired_device_is_closed(nights: Nights) -> None:
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.1)
    nights.confirm(lambda sha: 1.1 if sha == SECOND.sha else 1.0)
    assert rows(nights, STATES) == [("kernel", "slower", "open")]
    nights.lab.now += GONE_SECONDS - NIGHT
    end(nights)
    assert rows(nights, STATES) == [("kernel", "slower", "open")]
    nights.lab.now += 2 * NIGHT
    end(nights)
    assert rows(nights, STATES) == [("kernel", "slower", "closed")]
    assert rows(nights, LAST_NOTE) == [("its devices have brought no result for 30 days",)]


def test_an_improvement_that_stays_is_closed(nights: Nights) -> None:
    nights.bundle = SECOND.sha
    nights.pass_by(1, 0.9)
    nights.confirm(lambda sha: 0.9 if sha == SECOND.sha else 1.0)
    nights.lab.now += PRAISED_SECONDS - 1
    end(nights)
    assert rows(nights, STATES) == [("kernel", "faster", "open")]
    nights.lab.now += 1
    end(nights)
    assert rows(nights, STATES) == [("kernel", "faster", "closed")]


Judged = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def judged(database: Database) -> Judged:
    """Regressions of imported nights: the device of a host is retired after `gone_after` nights."""

    def judge(plan: Plan, *, later: float, gone_after: int = 10**9) -> list[tuple[object, ...]]:
        now = BEGAN + plan.runs * NIGHT
        for run in range(plan.runs):
            devices = 2 if run < gone_after else 1
            some = replace(plan, devices=devices)
            with database.transaction() as tx:
                import_lines(tx, file_lines(some, [run]), now)
        detect(database, now, all_at_once=True)
        for _ in range(2):
            conclude(database, now + later)
        with database.reading() as tx:
            return [tuple(row) for row in tx.exec_driver_sql(STATES)]

    return judge


def test_nobody_waits_for_the_retired_one_of_two_devices(judged: Judged) -> None:
    """Both became slower, one was retired before the fix."""
    steps = [
        Step(case=0, run=20, until=35, factor=1.1, cause="kernel", device=device)
        for device in (0, 1)
    ]
    plan = Plan(cases=1, runs=70, devices=2, steps=steps, metrics=("hot",))
    assert ("kernel", "slower", "verified") in judged(plan, later=0.0, gone_after=34)


def test_old_results_that_are_imported_stay_open_for_a_while(judged: Judged) -> None:
    """They ended a year ago, and people have to see what they show."""
    plan = Plan(
        cases=1, runs=40, metrics=("hot",),
        steps=[Step(case=0, run=20, factor=1.1, cause="kernel")],
    )  # fmt: skip
    assert judged(plan, later=GONE_SECONDS - NIGHT) == [("kernel", "slower", "open")]


@one_engine
def test_what_is_older_than_the_history_that_is_scanned_becomes_ambiguous(
    database: Database,
) -> None:
    """Screened in a long import, of which the history is cut for the last 200 results alone."""
    blip = Step(case=0, run=40, until=41, factor=1.1, cause="host")
    plan = Plan(cases=1, runs=260, metrics=("hot",), steps=[blip])
    now = BEGAN + plan.runs * NIGHT
    with database.transaction() as tx:
        import_lines(tx, file_lines(plan), now)
    detect(database, now, all_at_once=True)
    with database.reading() as tx:
        states = tx.exec_driver_sql("SELECT state FROM change_point ORDER BY id").scalars().all()
    assert "ambiguous" in states
    assert "suspected" not in states
