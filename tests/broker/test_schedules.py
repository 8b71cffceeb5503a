"""Schedules in a fleet: two schedulers, a Redis that forgets everything, and each slot once."""

import time

import pytest
from sqlalchemy import select

from cluster import Lab, until
from vkbench.job import Mode
from vkbench_db import schema
from vkbench_db.upkeep import schedules
from vkbench_db.upkeep.schedules import Slot
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import selection_json

CASES = Selection(cases=("copy/f32/n64",), mode=Mode.CORRECTNESS)


def slots(lab: Lab) -> list[Slot]:
    with lab.database.reading() as tx:
        return schedules.slots(tx, schedules.find(tx, "often").id, None)


@pytest.mark.timeout(300)
def test_two_schedulers_run_what_is_due_once(lab: Lab) -> None:
    for _ in range(2):
        lab.start_scheduler()
    lab.start_worker("a")
    with lab.database.transaction() as tx:
        schedules.add(
            tx,
            name="often",
            cron="* * * * *",
            selection=selection_json(CASES),
            user="",
            now=time.time() - 150,
        )
    lab.redis.client.flushall()
    until(lambda: any(slot.run for slot in slots(lab)), "no slot is run", 30)
    time.sleep(3)  # what would double it has its chance
    found = slots(lab)
    ran = [bool(slot.run) for slot in found]  # newest first
    assert ran == sorted(ran, reverse=True)
    assert ran.count(False) in (1, 2)
    assert {slot.note for slot in found if not slot.run} == {"missed"}
    runs = [slot.run for slot in found if slot.run]
    lab.await_end(*runs)
    lab.check(*runs)
    with lab.database.reading() as tx:
        assert sorted(tx.execute(select(schema.run.c.id)).scalars()) == sorted(runs)
