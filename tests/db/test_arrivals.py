"""Runs of many jobs: others write beside them, and what was stored in part is never sent."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from databases import NOW, Lab
from vkbench.job import JobState, Mode, PlannedJob
from vkbench.run import RunWords
from vkbench_db.ask import queries
from vkbench_db.work import arrivals, store
from vkbench_db.work.arrivals import ABANDONED_SECONDS, Withdrawn
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import Submitted, submit
from vkbench_scheduler.watch.timetable import settle

PART = 5
JOBS = 4 * PART + 2
LATER = NOW + 2 * ABANDONED_SECONDS


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of few jobs, and a submission that stands still is soon given up."""
    monkeypatch.setattr("vkbench_db.work.arrivals.PART_JOBS", PART)
    monkeypatch.setattr("vkbench_scheduler.planning.submit.PART_JOBS", PART)
    monkeypatch.setattr("vkbench_db.work.arrivals.STILL_SECONDS", 0.5)


def new_run(lab: Lab, key: str | None = None) -> int:
    with lab.database.transaction() as tx:
        return store.create_run(
            tx, mode=Mode.BOTH, selection={}, now=lab.now, words=RunWords(idempotency_key=key)
        ).id


def planned(lab: Lab, device: str, count: int = JOBS) -> Iterator[PlannedJob]:
    return (lab.planned(device, case) for case in range(1, count + 1))


class Killed(BaseException):
    """What no code of ours expects."""


def half_stored(lab: Lab, device: str, key: str | None = None) -> int:
    """A run whose submission was killed when half of its jobs were stored."""
    run = new_run(lab, key)
    with lab.database.transaction() as tx:
        store.add_jobs(tx, run, planned(lab, device, JOBS // 2), JobState.ARRIVING)
    return run


def half_queued(lab: Lab, device: str) -> int:
    """A run whose submission was killed when all its jobs were stored, and some queued."""
    run = new_run(lab)
    with lab.database.transaction() as tx:
        store.add_jobs(tx, run, planned(lab, device, PART))
        store.add_jobs(tx, run, planned(lab, device), JobState.ARRIVING)
    return run


def resubmitted(lab: Lab, device: str, key: str) -> Submitted:
    return submit(
        lab.database,
        Selection(),
        [lab.facts()],
        words=RunWords(idempotency_key=key),
        planner=lambda *_: planned(lab, device),
    )


def state(lab: Lab, run: int) -> str:
    with lab.database.reading() as tx:
        return queries.find_run(tx, str(run)).progress.state


def test_nothing_is_sent_before_all_is_stored(lab: Lab) -> None:
    device, run = lab.add_device(), new_run(lab)
    seen: list[tuple[int, str]] = []

    def watched() -> Iterator[PlannedJob]:
        for job in planned(lab, device):
            seen.append((len(lab.pick(device)), state(lab, run)))
            yield job

    assert arrivals.store_jobs(lab.database, run, watched()) == JOBS
    assert {sent for sent, _ in seen} == {0}
    assert {said for _, said in seen[PART:]} == {JobState.ARRIVING}
    assert [job.case for job in lab.pick(device)] == [job.case for job in planned(lab, device)]


def test_others_write_between_two_parts(lab: Lab) -> None:
    device, run = lab.add_device(), new_run(lab)

    def beside() -> Iterator[PlannedJob]:
        for job in planned(lab, device):
            with lab.database.transaction() as tx:  # in a transaction it would wait for itself
                store.pause(tx, device, store.Pause(reason=job.case, by="me", at=NOW))
            yield job

    arrivals.store_jobs(lab.database, run, beside())
    assert lab.states(run) == [JobState.QUEUED] * JOBS


def test_a_submission_that_fails_leaves_nothing_to_send(lab: Lab) -> None:
    device = lab.add_device()

    def broken() -> Iterator[PlannedJob]:
        yield from planned(lab, device, JOBS // 2)
        raise Killed

    for _ in range(2):  # its key is free again
        run = new_run(lab, "key")
        with pytest.raises(Killed):
            arrivals.store_jobs(lab.database, run, broken())
        assert set(lab.states(run)) == {JobState.CANCELLED}
    assert lab.pick(device) == []


def test_a_killed_submission_is_never_sent_and_is_tidied_up(lab: Lab) -> None:
    device = lab.add_device()
    run = half_stored(lab, device)
    settle(lab.database, NOW + 1)  # it may still live
    assert set(lab.states(run)) == {JobState.ARRIVING}
    assert lab.pick(device) == []
    settle(lab.database, LATER)
    assert set(lab.states(run)) == {JobState.CANCELLED}
    assert state(lab, run) == "cancelled"


def test_a_submission_that_was_killed_at_its_end_goes_on(lab: Lab) -> None:
    device = lab.add_device()
    run = half_queued(lab, device)
    settle(lab.database, NOW + 1)
    assert set(lab.states(run)) == {JobState.QUEUED}
    assert len(lab.pick(device)) == PART + JOBS


def test_a_killed_submission_is_made_good_by_the_same_key(lab: Lab) -> None:
    device = lab.add_device()
    half = half_stored(lab, device, "key")
    made = resubmitted(lab, device, "key")
    assert made.run.id != half
    assert made.jobs == JOBS
    assert set(lab.states(half)) == {JobState.CANCELLED}
    assert len(lab.pick(device)) == JOBS
    assert resubmitted(lab, device, "key") == Submitted(
        run=store.NewRun(id=made.run.id, uuid=made.run.uuid, new=False), jobs=0
    )


def test_a_submission_that_lives_is_waited_for(lab: Lab) -> None:
    device, run = lab.add_device(), new_run(lab, "key")
    made: list[Submitted] = []
    other = Thread(target=lambda: made.append(resubmitted(lab, device, "key")))

    def slow() -> Iterator[PlannedJob]:
        for place, job in enumerate(planned(lab, device)):
            if place == PART:
                other.start()
            if place >= PART:
                other.join(0.02)
            yield job

    assert arrivals.store_jobs(lab.database, run, slow()) == JOBS
    other.join()
    assert [(each.run.id, each.jobs) for each in made] == [(run, 0)]
    assert len(lab.pick(device)) == JOBS


def test_cancelling_ends_a_submission(lab: Lab) -> None:
    device, run = lab.add_device(), new_run(lab)

    def cancelled() -> Iterator[PlannedJob]:
        for place, job in enumerate(planned(lab, device)):
            if place == JOBS // 2:
                assert arrivals.cancel_run(lab.database, run, NOW) == 2 * PART
            yield job

    with pytest.raises(Withdrawn):
        arrivals.store_jobs(lab.database, run, cancelled())
    assert set(lab.states(run)) == {JobState.CANCELLED}


def test_a_cancelled_run_is_sent_no_more_before_its_jobs_are_marked(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, JOBS)
    sent = lab.pick(device, 3)
    with lab.database.transaction() as tx:
        store.note_cancelled(tx, run, NOW)  # and the command is killed
    assert lab.pick(device) == []
    settle(lab.database, NOW + 1)
    assert set(lab.states(run)) == {JobState.CANCELLED}
    lab.record(*(lab.answer(job) for job in sent))
    assert set(lab.states(run)) == {JobState.CANCELLED}
