"""Timings faster than their device can be: done again with other inputs, and told to channels."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from sqlalchemy import select, text

from databases import Lab
from listener import Listener, listening, settings_for
from vkbench.job import Arm, ArmKind, Job, JobState, Mode, Outcome
from vkbench.settings import Settings
from vkbench_db import schema
from vkbench_detection.series.impossible import SUSPECT
from vkbench_scheduler.watch import suspects
from vkbench_scheduler.watch.timetable import place, telling

CASE = "matmul/f32/b1_m64_n64_k64"


def suspect(lab: Lab, case: str = CASE) -> int:
    """A placed timing that its device cannot reach; the job's number."""
    lab.now = time.time() - 600
    device = lab.add_device(kind="discrete")
    run = lab.submit(device, [case])
    with lab.database.transaction() as tx:
        table, number = schema.calibration, tx.execute(select(schema.device.c.id)).scalar_one()
        rates = {"read_bytes": 1e9, "fma_f32": 1e9, "dot_i8": 1e9, "matrices": {"f16_f32": 1e9}}
        tx.execute(
            table.insert().values(
                device_id=number, environment="", measured_at=lab.now, run_id=run, **rates
            )
        )
    [job] = lab.pick(device)
    fast(lab, job, 1e-6)
    place(lab.database, lab.now)
    return job.id


def fast(lab: Lab, job: Job, seconds: float, outcome: Outcome = Outcome.PASSED) -> None:
    done = lab.answer(job, outcome)
    timings = tuple(replace(each, seconds=seconds, flops=10**6) for each in done.timings)
    lab.record(replace(done, timings=timings))


def check_of(lab: Lab) -> Job:
    """The job of the second check, taken by its worker."""
    with lab.database.reading() as tx:
        key = tx.execute(select(schema.device.c.key)).scalar_one()
    [job] = lab.pick(key)
    return job


def told(lab: Lab, listener: Listener, after: float = 0.0) -> list[dict[str, Any]]:
    """All messages, once the step was taken."""
    suspects.step(lab.database, settings_for(listener), lab.now + after)
    return [json.loads(body) for _, body in listener.heard]


def test_it_is_done_again_with_other_inputs_and_told_once(lab: Lab) -> None:
    number = suspect(lab)
    with listening() as listener:
        assert told(lab, listener) == []  # the second check has not ended
        job = check_of(lab)
        assert (job.case, job.mode) == (f"{CASE}/seed=1", Mode.PERFORMANCE)
        fast(lab, job, 1e-6)
        place(lab.database, lab.now)
        told(lab, listener)
        [message] = told(lab, listener)
    data = message["data"]
    assert message["type"] == "timing.suspect"
    assert (data["case"], data["job"], data["second_check"]) == (CASE, number, JobState.PASSED)
    assert (data["seconds"], data["seconds_again"]) == (1e-6, 1e-6)
    assert "With other inputs it was right again, and took 1.000 us" in data["summary"]
    with lab.database.reading() as tx:
        assert len(tx.execute(select(schema.run.c.id)).all()) == 2  # no check of the check
        flags = tx.execute(
            select(schema.measurement.c.flag).where(schema.measurement.c.job_id == number)
        ).scalars()
        assert set(flags) == {SUSPECT}


def test_a_wrong_second_check_says_what_is_wrong(lab: Lab) -> None:
    suspect(lab)
    with listening() as listener:
        fast(lab, check_of(lab), 1e-6, Outcome.WRONG)
        [message] = told(lab, listener)
    assert message["data"]["second_check"] == JobState.WRONG
    assert "With other inputs it is wrong: " in message["data"]["summary"]


def test_people_hear_without_a_second_check_after_a_while(lab: Lab) -> None:
    suspect(lab)
    with listening() as listener:
        assert told(lab, listener, suspects.WAIT_SECONDS - 1) == []
        [message] = told(lab, listener, suspects.WAIT_SECONDS + 1)
    assert "has not ended yet" in message["data"]["summary"]


def test_a_second_check_is_submitted_once(lab: Lab) -> None:
    number = suspect(lab)
    suspects.check(lab.database, [number], lab.now)
    with lab.database.reading() as tx:
        assert tx.execute(text("SELECT count(*) FROM run")).scalar_one() == 2


def test_nobody_hears_of_what_counts_by_now(lab: Lab) -> None:
    suspect(lab)
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET flag = ''"))
    with listening() as listener:
        assert told(lab, listener, suspects.WAIT_SECONDS + 1) == []


def test_a_scheduler_tells() -> None:
    assert "suspects" in [step.name for step in telling(Settings())]


def test_a_second_check_of_a_build_asks_the_build(lab: Lab) -> None:
    number = suspect(lab)
    with lab.database.transaction() as tx:
        tx.execute(text("DELETE FROM job WHERE id > :first"), {"first": number})
        tx.execute(text("DELETE FROM run WHERE id > 1"))
        tx.execute(text(f"UPDATE job SET arm_kind = 'build', bundle = '{'b' * 64}'"))
    suspects.check(lab.database, [number], lab.now)
    assert check_of(lab).arm == Arm(name="b" * 64, kind=ArmKind.BUILD)
