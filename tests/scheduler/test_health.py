"""Devices that seem broken are paused; flukes and wrong kernels pause none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import insert, select

from databases import Lab
from vkbench.job import Mode, Outcome, PlannedJob
from vkbench.settings import Settings
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.upkeep.pauses import untold_pauses
from vkbench_db.work import store
from vkbench_db.work.devices import SCHEDULER
from vkbench_scheduler.watch import health, pauses
from vkbench_scheduler.watch.health import submit_trial
from vkbench_scheduler.watch.messages import Message

ADD, COPY, MUL = "add/f32/n64", "copy/f32/n64", "mul/f32/n64"
CRASHED, LOST, PASSED = Outcome.CRASHED, Outcome.DEVICE_LOST, Outcome.PASSED


@pytest.fixture
def device(lab: Lab) -> str:
    return lab.add_device()


def ends(lab: Lab, device: str, *done: tuple[str, Outcome]) -> None:
    """One attempt of a new job a case, each a second after the one before."""
    for case, outcome in done:
        job = PlannedJob(device=device, case=case, mode=Mode.CORRECTNESS)
        with lab.database.transaction() as tx:
            run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=lab.now)
            store.add_jobs(tx, run.id, [job])
            [picked] = store.pick(tx, device, 1, lab.now, run=run.id)
            lab.now += 1
            answer = replace(lab.answer(picked.job, outcome), started=lab.now, bundle="b0" * 32)
            store.record(tx, [answer], lab.now)


def reason(lab: Lab, device: str) -> str:
    health.step(lab.database, lab.now)
    with lab.database.reading() as tx:
        [row] = [row for row in queries.devices(tx) if row.key == device]
    assert row.paused_by == (SCHEDULER if row.paused else "")
    return row.paused_reason


def canaries(lab: Lab, device: str, off: Sequence[bool]) -> None:
    with lab.database.transaction() as tx:
        number = tx.execute(
            select(schema.device.c.id).where(schema.device.c.key == device)
        ).scalar()
        for is_off in off:
            lab.now += 10
            row = {"device_id": number, "environment": "e", "measured_at": lab.now}
            tx.execute(insert(schema.canary).values(**row, seconds=1e-3, is_off=is_off))


def test_three_cases_of_two_kernels_in_a_row_pause_a_device(lab: Lab, device: str) -> None:
    ends(lab, device, (ADD, PASSED), (ADD, CRASHED), (COPY, LOST))
    assert reason(lab, device) == ""
    ends(lab, device, ("add/f32/n65", CRASHED))
    assert reason(lab, device) == "3 cases in a row ended crashed, device_lost, of add, copy"


@pytest.mark.parametrize(
    "done",
    [
        [(ADD, CRASHED)] * 5,  # one case
        [(ADD, CRASHED), ("add/f32/n65", CRASHED), ("add/f32/n66", CRASHED)],  # one kernel
        [(ADD, CRASHED), (COPY, CRASHED), (MUL, PASSED), (MUL, CRASHED)],  # not in a row
        [(ADD, Outcome.TIMED_OUT), (COPY, Outcome.TIMED_OUT), (MUL, Outcome.TIMED_OUT)],  # slow
        [(ADD, Outcome.ERROR), (COPY, Outcome.ERROR), (MUL, Outcome.ERROR)],
    ],
)
def test_kernels_and_flukes_pause_none(
    lab: Lab, device: str, done: Sequence[tuple[str, Outcome]]
) -> None:
    ends(lab, device, *done)
    assert reason(lab, device) == ""


def test_what_fails_on_another_device_too_is_the_kernels_fault(lab: Lab, device: str) -> None:
    other = lab.add_device("SwiftShader")
    ends(lab, other, (ADD, CRASHED))
    ends(lab, device, (ADD, CRASHED), (COPY, CRASHED), (MUL, CRASHED))
    assert reason(lab, device) == ""


def test_a_time_out_counts_where_the_case_was_done_before(lab: Lab, device: str) -> None:
    cases = (ADD, COPY, MUL)
    ends(lab, device, *((case, PASSED) for case in cases))
    ends(lab, device, *((case, Outcome.TIMED_OUT) for case in cases))
    assert "3 cases in a row ended timed_out" in reason(lab, device)


def test_three_canaries_after_a_steady_one_pause_a_device(lab: Lab, device: str) -> None:
    canaries(lab, device, [False, True, True])
    assert reason(lab, device) == ""
    canaries(lab, device, [True])
    assert reason(lab, device) == "3 canaries in a row are off"
    with lab.database.transaction() as tx:
        assert not store.resume(tx, device, lab.now, as_is=True)
    canaries(lab, device, [True] * 4)  # it stays as it has become
    assert reason(lab, device) == ""


def paused(lab: Lab, device: str) -> None:
    with lab.database.transaction() as tx:
        store.pause(tx, device, store.Pause(reason="broken", by=SCHEDULER, at=lab.now))


def resumed(lab: Lab, device: str) -> None:
    paused(lab, device)
    with lab.database.transaction() as tx:
        assert store.resume(tx, device, lab.now)


def test_on_trial_one_failure_is_enough_until_a_job_passes(lab: Lab, device: str) -> None:
    resumed(lab, device)
    ends(lab, device, (ADD, CRASHED))
    assert reason(lab, device) == "on trial, and a job ended crashed"
    resumed(lab, device)
    canaries(lab, device, [True])
    assert reason(lab, device) == "on trial, and its canary is still off"
    resumed(lab, device)
    ends(lab, device, (ADD, PASSED))
    lab.now += 20
    assert reason(lab, device) == ""
    ends(lab, device, (ADD, CRASHED))
    assert reason(lab, device) == ""


def test_the_canary_of_a_trial_goes_first(lab: Lab, device: str) -> None:
    ordinary = lab.submit(device, 3)
    with lab.database.transaction() as tx:
        [row] = queries.devices(tx)
        trial = submit_trial(tx, row.facts, lab.now)
    runs = [job.run for job in lab.pick(device)]
    assert runs == [trial, *[ordinary] * 3]


def test_channels_hear_of_a_pause_once(
    lab: Lab, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Message] = []
    channels = {"webhook": lambda message, now: heard.append(message)}
    monkeypatch.setattr(pauses, "channels_of", lambda settings: channels)
    paused(lab, device)
    for _ in range(2):
        pauses.step(lab.database, Settings(), lab.now)
    [message] = heard
    assert message.title == "vkbench: device llvmpipe of alpha is paused: broken"
    assert message.body["data"]["key"] == device
    with lab.database.reading() as tx:
        assert untold_pauses(tx, 0.0) == []
