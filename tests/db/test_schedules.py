"""Schedules: any number of schedulers submit each slot once; no schedule stops another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from databases import Lab
from vkbench.device import HostDriver
from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.job import JobState, Mode
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.upkeep import schedules
from vkbench_db.upkeep.schedules import Schedule, Slot
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import selection_json
from vkbench_scheduler.watch.schedules import NOTED, add, fire, resume, step

DAY = 86_400.0
NIGHTLY = "0 2 * * *"
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
TWO = MIDNIGHT + 2 * 3600
COPIES = Selection(kernels=("copy",), formats=("f32",), mode=Mode.CORRECTNESS)

Added = Callable[..., Schedule]


@pytest.fixture
def added(database: Database) -> Added:
    """Adds a schedule at midnight and finds it again."""

    def add(name: str = "nightly", selection: Selection = COPIES, cron: str = NIGHTLY) -> Schedule:
        with database.transaction() as tx:
            words = selection_json(selection)
            schedules.add(tx, name=name, cron=cron, selection=words, user="ann", now=MIDNIGHT)
        return found(database, name)

    return add


def found(database: Database, name: str = "nightly") -> Schedule:
    with database.reading() as tx:
        return schedules.find(tx, name)


def slots(database: Database, name: str = "nightly") -> list[Slot]:
    with database.reading() as tx:
        return schedules.slots(tx, schedules.find(tx, name).id, None)


def runs(database: Database) -> int:
    with database.reading() as tx:
        return int(tx.execute(select(func.count()).select_from(schema.run)).scalar_one())


def test_a_slot_is_run_when_it_comes_and_once(lab: Lab, added: Added) -> None:
    device = lab.add_device()
    added()
    step(lab.database, TWO - 1)
    assert runs(lab.database) == 0
    for _ in range(3):
        step(lab.database, TWO)
    step(lab.database, TWO + 3600)
    (slot,) = slots(lab.database)
    assert (slot.at, slot.note, runs(lab.database)) == (TWO, "", 1)
    with lab.database.reading() as tx:
        run = tx.execute(select(schema.run)).one()
    assert (run.id, run.label, run.user_name, run.mode) == (
        slot.run,
        "nightly",
        "ann",
        "correctness",
    )
    assert run.about == {"schedule": "nightly", "slot": "2026-11-21T02:00:00Z"}
    assert run.selection["devices"] == [device]
    assert set(lab.states(run.id)) == {JobState.QUEUED}


def test_two_schedulers_at_once_make_one_run_of_a_slot(lab: Lab, added: Added) -> None:
    lab.add_device()
    added(cron="* * * * *")
    together = Barrier(4)

    def look(minute: int) -> None:
        together.wait()
        step(lab.database, MIDNIGHT + 60 * minute)

    with ThreadPoolExecutor(4) as pool:
        for minute in range(1, 9):
            list(pool.map(look, [minute] * 4))
            lab.settle(lab.facts().key)  # else the device would be left out
    assert [slot.at for slot in slots(lab.database)] == [
        MIDNIGHT + 60 * minute for minute in range(8, 0, -1)
    ]
    assert runs(lab.database) == 8


def test_of_missed_slots_the_newest_is_run_and_the_others_are_noted(lab: Lab, added: Added) -> None:
    lab.add_device()
    added()
    step(lab.database, TWO + 3 * DAY + 60)
    *_, newest = reversed(found_slots := slots(lab.database))
    assert (newest.at, newest.run is None, newest.note) == (TWO + 3 * DAY, False, "")
    assert [(slot.run, slot.note) for slot in found_slots[1:]] == [(None, "missed")] * 3
    assert runs(lab.database) == 1


def test_a_slot_that_is_too_old_is_not_run(lab: Lab, added: Added) -> None:
    lab.add_device()
    added(cron="0 2 * * 1")  # Mondays; midnight is a Saturday's
    monday = TWO + 2 * DAY
    step(lab.database, monday + DAY + 1)
    assert [(slot.at, slot.run) for slot in slots(lab.database)] == [(monday, None)]
    assert "missed" in slots(lab.database)[0].note
    step(lab.database, monday + 7 * DAY)
    assert slots(lab.database)[0].run


def test_a_month_of_minutes_away_notes_so_many(lab: Lab, added: Added) -> None:
    lab.add_device()
    added(cron="* * * * *")
    step(lab.database, MIDNIGHT + 30 * DAY)
    assert len(slots(lab.database)) == NOTED + 1
    assert runs(lab.database) == 1


def test_what_cannot_run_says_why_and_stops_no_other(lab: Lab, added: Added) -> None:
    lab.add_device()
    added("a", Selection(kernels=("copy",), devices=("NVIDIA*",)))
    added("b", Selection(suite="no such suite"))
    added("c")
    step(lab.database, TWO)
    assert [slots(lab.database, name)[0].run is None for name in "abc"] == [True, True, False]
    assert "unknown device 'NVIDIA*'" in slots(lab.database, "a")[0].note
    assert "unknown suite" in slots(lab.database, "b")[0].note
    assert runs(lab.database) == 1


def test_a_schedule_of_another_version_says_so(lab: Lab, added: Added) -> None:
    lab.add_device()
    added()
    with lab.database.transaction() as tx:
        tx.execute(update(schema.schedule).values(selection={"repeat": "often"}))
    step(lab.database, TWO)
    assert "malformed Selection" in slots(lab.database)[0].note


def test_devices_are_those_of_the_time_it_comes_due(lab: Lab, added: Added) -> None:
    first = lab.add_device("RTX 1", "alpha")
    lab.add_device("other", "alpha")
    added(selection=Selection(kernels=("copy",), formats=("f32",), devices=("RTX",)))
    step(lab.database, TWO)
    lab.settle(first)
    second = lab.add_device("RTX 2", "beta")
    step(lab.database, TWO + DAY)
    with lab.database.reading() as tx:
        asked = tx.execute(select(schema.run.c.selection).order_by(schema.run.c.id)).scalars().all()
    assert [words["devices"] for words in asked] == [[first], sorted_by_key(lab, first, second)]


def sorted_by_key(lab: Lab, *keys: str) -> list[str]:
    from vkbench_db.ask import queries

    with lab.database.reading() as tx:
        return [row.key for row in queries.devices(tx) if row.key in keys]


def test_a_device_that_has_not_done_the_last_one_is_left_out(lab: Lab, added: Added) -> None:
    away, here = lab.add_device("away"), lab.add_device("here")
    added()
    step(lab.database, TWO)
    lab.settle(here)
    step(lab.database, TWO + DAY)
    first, second = reversed(slots(lab.database))
    assert f"away ({away}) left out: run {first.run} has jobs left there" in second.note
    with lab.database.reading() as tx:
        asked = tx.execute(select(schema.run.c.selection).where(schema.run.c.id == second.run))
        assert asked.scalar_one()["devices"] == [here]
    step(lab.database, TWO + 2 * DAY)  # now neither has
    assert slots(lab.database)[0].run is None
    lab.settle(away)
    lab.settle(here)
    step(lab.database, TWO + 3 * DAY)
    assert slots(lab.database)[0].note == ""


def test_paused_ones_wait_and_do_not_catch_up(lab: Lab, added: Added) -> None:
    lab.add_device()
    schedule = added()
    with lab.database.transaction() as tx:
        schedules.enable(tx, schedule.id, False)
    step(lab.database, TWO + DAY)
    assert slots(lab.database) == []
    with lab.database.transaction() as tx:
        resume(tx, found(lab.database), TWO + DAY + 60)
    step(lab.database, TWO + DAY + 61)
    assert [(slot.at, slot.run, slot.note) for slot in slots(lab.database)] == [
        (TWO + DAY, None, "paused")
    ]
    step(lab.database, TWO + 2 * DAY)
    assert runs(lab.database) == 1


def test_fired_by_hand_it_runs_now_and_still_when_it_is_due(lab: Lab, added: Added) -> None:
    device = lab.add_device()
    added()
    made = fire(lab.database, "nightly", TWO - 100.5)
    assert set(lab.states(made.run.id)) == {JobState.QUEUED}
    assert slots(lab.database)[0].note == "fired by hand"
    with pytest.raises(NothingToDo, match="left out"):
        fire(lab.database, "nightly", TWO - 50.5)
    lab.settle(device)
    step(lab.database, TWO)
    assert runs(lab.database) == 2


def test_a_bad_one_fired_by_hand_leaves_nothing(lab: Lab, added: Added) -> None:
    lab.add_device()
    added(selection=Selection(kernels=("copi",)))
    with pytest.raises(UnknownName, match="did you mean"):
        fire(lab.database, "nightly", TWO)
    assert slots(lab.database) == []
    assert runs(lab.database) == 0


def test_names_are_one_s_own_and_removing_keeps_the_runs(lab: Lab, added: Added) -> None:
    lab.add_device()
    schedule = added()
    with pytest.raises(UsageError, match="there is a schedule 'nightly'"):
        added()
    step(lab.database, TWO)
    with lab.database.transaction() as tx:
        schedules.remove(tx, schedule.id)
        assert schedules.list_schedules(tx) == []
    assert runs(lab.database) == 1
    with pytest.raises(UnknownName):
        found(lab.database)


def test_a_jump_of_the_clock_ahead_and_back_silences_no_schedule(lab: Lab, added: Added) -> None:
    lab.add_device()
    added()
    step(lab.database, TWO)
    lab.settle(lab.facts().key)
    step(lab.database, TWO + 400 * DAY)  # the clock was set wrongly, and set right again
    lab.settle(lab.facts().key)
    silent_until = TWO + 4 * DAY
    for day in range(1, 4):
        step(lab.database, TWO + day * DAY)
        lab.settle(lab.facts().key)
    ran = [slot.at for slot in slots(lab.database) if slot.run and slot.at < silent_until]
    assert ran == [TWO + day * DAY for day in (3, 2, 1, 0)]
    assert runs(lab.database) == 5


def test_a_schedule_that_was_added_while_the_clock_was_ahead_begins(lab: Lab, added: Added) -> None:
    lab.add_device()
    added()  # at midnight, by a clock that was 100 days ahead
    before = TWO - 100 * DAY
    step(lab.database, before - 60)
    assert runs(lab.database) == 0
    step(lab.database, before)
    assert [slot.at for slot in slots(lab.database)] == [before]


def test_a_schedule_runs_through_the_drivers_that_hosts_have_then(lab: Lab, added: Added) -> None:
    mine, other, copied = ("ab" * 32, "cd" * 32, "ef" * 32)
    for name in ("llvmpipe", "Radeon"):
        lab.add_device(name, drivers=(HostDriver(name="mine", sha=mine),))
    added("one", replace(COPIES, driver="mine"))
    added("each", replace(COPIES, driver="*"))
    added("copied", replace(COPIES, driver=copied))  # goes where its jobs go
    device = lab.add_device("Arc", drivers=(HostDriver(name="other", sha=other),))

    def fire_now(name: str) -> tuple[str, set[tuple[str, str]]]:
        run = fire(lab.database, name, TWO).run.id
        with lab.database.reading() as tx:
            track = tx.execute(select(schema.run.c.track).where(schema.run.c.id == run)).scalar()
            job, known = schema.job.c, schema.device.c
            rows = tx.execute(
                select(job.driver, known.name)
                .join(schema.device, known.id == job.device_id)
                .where(job.run_id == run)
            )
            return str(track), {(row.driver, row.name) for row in rows}

    assert fire_now("one") == ("main", {(mine, "llvmpipe"), (mine, "Radeon")})
    assert fire_now("each") == ("", {(mine, "llvmpipe"), (mine, "Radeon"), (other, "Arc")})
    assert {driver for driver, _ in fire_now("copied")[1]} == {copied}
    with (
        lab.database.transaction() as tx,
        pytest.raises(UnknownName, match="unknown driver 'mien'"),
    ):
        add(
            tx,
            name="slip",
            cron=NIGHTLY,
            selection=replace(COPIES, driver="mien", devices=(device,)),
            user="",
            now=MIDNIGHT,
        )
