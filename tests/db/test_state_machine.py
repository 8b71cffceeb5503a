"""Random lives of jobs: whatever comes in whatever order, what must hold holds.

A model beside the store would be the store again; these are its promises instead.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import Row, select

from databases import Lab
from vkbench.job import (
    ACTIVE,
    FINISHED,
    IN_FLIGHT,
    MAX_DISPATCHES,
    MAX_TRIES,
    SETTLED,
    Job,
    JobState,
    Outcome,
)
from vkbench.result import Result
from vkbench_db import schema
from vkbench_db.work import store

STEPS = 250
JOBS = 12
UNSETTLED = (Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.DEVICE_LOST)


@dataclass
class World:
    """Two devices, three runs, all messages that were ever sent or answered."""

    lab: Lab
    random: random.Random
    devices: list[str]
    runs: list[int]
    sent: list[Job] = field(default_factory=list)
    answers: list[Result] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)
    released: set[tuple[int, int]] = field(default_factory=set)  # given up, or ended unsettled

    def dispatch(self) -> None:
        self.sent += self.lab.pick(self.random.choice(self.devices), self.random.randint(1, 5))

    def answer(self) -> None:
        """A batch: new, doubled, late, from tokens long gone."""
        batch = []
        for _ in range(min(len(self.sent), self.random.randint(1, 4))):
            job = self.random.choice(self.sent[-8:] if self.random.random() < 0.7 else self.sent)
            outcome = self.random.choice(SETTLED if self.random.random() < 0.3 else UNSETTLED)
            batch.append(self.lab.answer(job, outcome))
        if self.answers and self.random.random() < 0.4:
            batch.append(self.random.choice(self.answers))
        if batch and self.random.random() < 0.2:
            batch.append(replace(batch[0], token=batch[0].token + 50))  # never sent
        self.answers += batch
        self.released |= {(r.job, r.token) for r in batch if r.outcome not in SETTLED}
        self.lab.record(*batch)

    def lose(self) -> None:
        lost = self.random.sample(self.sent, min(len(self.sent), 4))
        self.released |= {(job.id, job.token) for job in lost}
        with self.lab.database.transaction() as tx:
            store.return_lost(tx, [(job.id, job.token) for job in lost], self.lab.now)

    def run(self) -> None:
        running = self.random.sample(self.sent, min(len(self.sent), 2))
        with self.lab.database.transaction() as tx:
            store.mark_running(tx, [(job.id, job.token) for job in running])

    def cancel(self) -> None:
        if self.random.random() < 0.05:
            run = self.random.choice(self.runs)
            self.cancelled.add(run)
            with self.lab.database.transaction() as tx:
                store.cancel(tx, run, self.lab.now)

    def drain(self) -> None:
        """Every job in flight is lost, and everything is sent until nothing waits."""
        for _ in range(MAX_DISPATCHES + MAX_TRIES):
            with self.lab.database.transaction() as tx:
                flying = store.dispatched_before(tx, self.lab.now + 1)
                self.released |= {(job.job, job.token) for job in flying}
                store.return_lost(tx, [(job.job, job.token) for job in flying], self.lab.now)
            jobs = [job for device in self.devices for job in self.lab.pick(device)]
            if not jobs:
                return
            self.sent += jobs
            self.lab.record(*(self.lab.answer(job) for job in jobs[::2]))
        raise AssertionError("jobs wait for ever")

    def jobs(self) -> dict[int, Row[*tuple[Any, ...]]]:
        with self.lab.database.reading() as tx:
            return {row.id: row for row in tx.execute(select(schema.job))}


def check(
    world: World, before: dict[int, Row[*tuple[Any, ...]]], after: dict[int, Row[*tuple[Any, ...]]]
) -> None:
    """What no step may do."""
    for id, job in after.items():
        was = before[id]
        if was.state in FINISHED:
            assert job == was  # nothing leaves an end, or changes it
        assert job.token >= was.token
        if was.state in IN_FLIGHT and job.state == JobState.QUEUED:
            assert (job.id, was.token) in world.released  # its own dispatch ended, not an older one
        if was.state == JobState.QUEUED and job.state in IN_FLIGHT:
            assert job.token == was.token + 1
        assert job.tries >= was.tries
        assert job.tries <= MAX_TRIES
        assert job.dispatches <= MAX_DISPATCHES
        has_result = job.state in FINISHED and job.state != JobState.CANCELLED
        assert (job.finished_at is not None) == has_result
        assert (job.settled_token is not None) == (job.state in SETTLED)
        if job.state == JobState.FAILED:
            assert job.tries == MAX_TRIES or job.dispatches == MAX_DISPATCHES
        if job.run_id in world.cancelled:
            assert job.state in FINISHED


def check_records(world: World) -> None:
    """Attempts, verdicts and measurements tell the same story as the jobs do."""
    jobs = world.jobs()
    with world.lab.database.reading() as tx:
        attempts = tx.execute(select(schema.attempt)).all()
        verdicts = tx.execute(select(schema.verdict.c.job_id, schema.verdict.c.token)).all()
        measured = tx.execute(
            select(schema.measurement.c.job_id, schema.measurement.c.token).distinct()
        ).all()
    sent = Counter((job.id, job.token) for job in world.sent)
    assert set(sent.values()) == {1}  # no token was given twice
    outcomes = {(row.job_id, row.token): row.outcome for row in attempts}
    assert set(outcomes) <= set(sent)
    first: dict[tuple[int, int], str] = {}
    for answer in world.answers:
        if (answer.job, answer.token) in sent:
            first.setdefault((answer.job, answer.token), answer.outcome)
    assert {key: outcomes[key] for key in first} == first  # each stored, the first word of each
    for job in jobs.values():
        tried = [key for key in outcomes if key[0] == job.id]
        assert job.tries <= sum(outcomes[key] not in SETTLED for key in tried)
        if job.settled_token is not None:
            assert outcomes[job.id, job.settled_token] == job.state
    for job_id, token in [*verdicts, *measured]:
        assert jobs[job_id].settled_token == token


@pytest.mark.parametrize("seed", range(6))
def test_random_lives_keep_every_promise(lab: Lab, seed: int) -> None:
    devices = [lab.add_device(), lab.add_device("SwiftShader")]
    runs = [lab.submit(devices[n % 2], JOBS // 3, priority=n % 2) for n in range(3)]
    world = World(lab, random.Random(seed), devices, runs)
    steps = [world.dispatch, world.answer, world.lose, world.run, world.cancel]
    before = world.jobs()
    for _ in range(STEPS):
        lab.now += 1
        world.random.choices(steps, weights=(4, 3, 2, 1, 1))[0]()
        after = world.jobs()
        check(world, before, after)
        before = after
    world.drain()
    after = world.jobs()
    check(world, before, after)
    assert not [job for job in after.values() if job.state in ACTIVE]
    check_records(world)
