"""Timings of older versions, whose metrics were sides: in files and messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select

from databases import Lab
from planted_runs import timing
from vkbench.job import Arm, Job, Mode, Pair
from vkbench.result import Side, Timing
from vkbench_db import schema
from vkbench_db.older import timings_of

CASE = "add/f32/h1_w1"
TIMED = {1: ("hot", "cold"), 2: ("old", "new"), 3: ("hot", "ours")}  # of a job, a pair, a peer's
SIDES = {
    1: {("hot", "ours"), ("cold", "ours")},
    2: {("cold", "old"), ("cold", "new")},
    3: {("hot", "theirs"), ("hot", "ours")},
}


@pytest.mark.parametrize("job", [1, 2, 3])
def test_messages_and_files_do_too(job: int) -> None:
    timings = [timing(name, 1e-3) for name in TIMED[job]]
    found = timings_of(timings, "cold" if job == 2 else "")
    assert {(each.metric, each.side.value) for each in found} == SIDES[job]
    assert timings_of(found, "") == found


def test_what_an_older_worker_says_of_a_pair_is_stored_as_today(lab: Lab) -> None:
    pair = Pair(old=Arm(name="0a" * 32), metric="cold")
    device = lab.add_device()
    lab.submit(device, [CASE], mode=Mode.PAIRED, bundle="0b" * 32, pair=pair)
    [job] = lab.pick(device)
    lab.record(replace(lab.answer(_unpaired(job)), timings=_of_older_worker()))
    timed = schema.measurement.c
    with lab.database.reading() as tx:
        rows = tx.execute(select(timed.metric, timed.side).order_by(timed.side)).all()
    assert [tuple(row) for row in rows] == [("cold", Side.NEW), ("cold", Side.OLD)]


def _unpaired(job: Job) -> Job:
    return replace(job, mode=Mode.PERFORMANCE, pair=None)


def _of_older_worker() -> tuple[Timing, ...]:
    return timing("old", 1e-3), timing("new", 2e-3)
