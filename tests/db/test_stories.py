"""What the pages of a run and a job ask, on both engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import ENVIRONMENT, Lab
from vkbench.errors import UnknownName
from vkbench.job import JobState, Mode, Outcome
from vkbench.messages.wire import Announcement
from vkbench_db.ask import job_story, queries, run_story
from vkbench_db.ask.devices.lately import Lately, lately
from vkbench_db.ask.timings import seconds_of
from vkbench_db.work import store


def test_each_device_has_its_share_rate_and_time_left(lab: Lab) -> None:
    first, second = lab.add_device("one"), lab.add_device("two")
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        jobs = [lab.planned(device, case) for device in (first, second) for case in range(1, 7)]
        store.add_jobs(tx, run, jobs)
    lab.record(*(lab.answer(job) for job in lab.pick(first, 4)))
    lab.record(*(lab.answer(job, Outcome.WRONG) for job in lab.pick(second, 6)))
    with lab.database.reading() as tx:
        one, two = run_story.shares(tx, run, lab.now + 10)
        later, _ = run_story.shares(tx, run, lab.now + 100)
    assert (one.device, one.finished, one.total, one.bad) == (first, 4, 6, 0)
    assert one.per_second == pytest.approx(0.4)
    assert one.seconds_left == pytest.approx(5)
    assert (later.per_second, later.seconds_left) == (None, None)  # nothing ended lately
    assert (two.finished, two.bad, two.seconds_left) == (6, 6, None)
    assert (two.began_at, two.ended_at) == (lab.now, lab.now)


def test_failures_are_counted_by_cause_whatever_their_numbers(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, 5)
    jobs = lab.pick(device)
    wrong = [
        replace(lab.answer(job, Outcome.WRONG), reason=f"NMSE 0.{place} is over 1e-10")
        for place, job in enumerate(jobs[:3], 1)
    ]
    skipped = [replace(lab.answer(job, Outcome.SKIPPED), reason="no int8") for job in jobs[3:]]
    lab.record(*wrong, *skipped)
    with lab.database.reading() as tx:
        found = run_story.failures(tx, run)
        assert run_story.failures(tx, run + 1) == []
    assert [(each.state, each.count, each.reason) for each in found] == [
        ("wrong", 3, "NMSE 0.1 is over 1e-10"),
        ("skipped", 2, "no int8"),
    ]
    assert (found[0].job, found[0].case_name) == (jobs[0].id, jobs[0].case)


def test_the_run_before_asked_for_the_same_whatever_its_bundle(lab: Lab) -> None:
    asked = [
        {"suite": "quick", "bundle": "a"},
        {"suite": "spine"},
        {"suite": "quick", "bundle": "b"},
    ]
    with lab.database.transaction() as tx:
        first, other, last = (
            store.create_run(tx, mode=Mode.BOTH, selection=selection, now=lab.now).id
            for selection in asked
        )
    with lab.database.reading() as tx:
        before = run_story.run_before(tx, last)
        assert before
        assert before.id == first
        assert run_story.run_before(tx, other) is None
        assert run_story.run_before(tx, 99) is None


def test_a_job_tells_all_that_came_of_it(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, [1])
    lab.settle(device)
    newer = replace(ENVIRONMENT, driver_version="23")
    with lab.database.transaction() as tx:
        facts = lab.facts()
        said = Announcement(worker="alpha:1", facts=facts, environment=newer, bundle="b")
        store.register_device(tx, said, lab.now)
    lab.now += 60
    lab.submit(device, [1])
    [job] = lab.pick(device)
    lab.record(lab.answer(job, Outcome.CRASHED))
    [job] = lab.pick(device)
    lab.record(replace(lab.answer(job, Outcome.WRONG), environment=newer.hash))
    with lab.database.reading() as tx:
        [older] = queries.jobs(tx, run=1)
        story = job_story.story(tx, job.id)
        good = job_story.story(tx, older.id)
    assert (story.facts.state, story.facts.kernel) == (JobState.WRONG, "mul_mat_vec")
    assert [each.outcome for each in story.attempts] == ["crashed", "wrong"]
    assert story.settling
    assert story.settling.outcome == "wrong"
    assert story.verdict
    assert story.verdict.first_bad == "y[3]: found 1, expected 2"
    assert not story.timings
    assert story.last_good
    assert story.last_good.job == older.id
    versions = {facts["driver_version"] for facts in story.environments.values()}
    assert versions == {ENVIRONMENT.driver_version, "23"}
    assert [timing.metric for timing in good.timings] == ["hot", "cold"]
    assert good.timings[0].samples == pytest.approx([1e-3, 0.9e-3, 1.1e-3])
    assert good.last_good is None


def test_a_job_that_has_not_run_has_a_story_too(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, [1])
    with lab.database.reading() as tx:
        [job] = queries.jobs(tx)
        story = job_story.story(tx, job.id)
        with pytest.raises(UnknownName, match="99"):
            job_story.story(tx, 99)
    assert (story.attempts, story.verdict, story.settling) == ([], None, None)


def test_how_devices_did_lately_and_how_fast(lab: Lab) -> None:
    device, idle = lab.add_device("one"), lab.add_device("two")
    lab.submit(device, 2)
    jobs = lab.pick(device)
    lab.record(*(lab.answer(job) for job in jobs))
    with lab.database.reading() as tx:
        assert lately(tx) == {device: Lately(ended=2, newest_at=lab.now), idle: Lately()}
        assert seconds_of(tx, [jobs[0].id, 99]) == {
            (jobs[0].id, "hot"): 1e-3,
            (jobs[0].id, "cold"): 2e-3,
        }
        assert seconds_of(tx, []) == {}
