"""Results come in: once, first wins, and nothing that a runner says can stop the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Row, Table, func, select, text

from databases import Lab
from vkbench.job import MAX_TRIES, Job, JobState, Mode, Outcome
from vkbench.result import Result, Statistic, pack_samples, unpack_samples
from vkbench_db import schema
from vkbench_db.ask.results import results
from vkbench_db.transfer import exchange, transcript
from vkbench_db.work import store

UNSETTLED = [
    Outcome.ERROR,
    Outcome.CRASHED,
    Outcome.TIMED_OUT,
    Outcome.DEVICE_LOST,
    Outcome.WORKER_DIED,
]

REGISTERS = Statistic(name="registers", value=32.0)
Change = Callable[[Result], Result]


def row(lab: Lab, job: Job) -> Row[*tuple[Any, ...]]:
    with lab.database.reading() as tx:
        return tx.execute(select(schema.job).where(schema.job.c.id == job.id)).one()


def count(lab: Lab, table: Table) -> int:
    with lab.database.reading() as tx:
        return tx.execute(select(func.count()).select_from(table)).scalar_one()


@pytest.fixture
def job(lab: Lab) -> Job:
    """A job in flight."""
    device = lab.add_device()
    lab.submit(device, 1)
    return lab.pick(device)[0]


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.WRONG, Outcome.SKIPPED])
def test_a_settling_result_ends_its_job(lab: Lab, job: Job, outcome: Outcome) -> None:
    recorded = lab.record(lab.answer(job, outcome))
    assert recorded == store.StoredBatch(counts={JobState(outcome): 1})
    stored = row(lab, job)
    assert (stored.state, stored.settled_token, stored.finished_at) == (outcome, 1, lab.now)
    assert stored.reason == ("" if outcome == Outcome.PASSED else f"because {outcome}")
    assert count(lab, schema.verdict) == (outcome != Outcome.SKIPPED)
    assert count(lab, schema.measurement) == 2 * (outcome == Outcome.PASSED)


def test_all_of_a_result_is_kept(lab: Lab, job: Job) -> None:
    statistics = (
        Statistic(name="binary", value=None, note="none"),
        Statistic(name="energy", value=0.25, unit="J", spread=0.01),
        Statistic(name="registers", value=32.0),
    )
    result = replace(lab.answer(job), statistics=statistics)
    lab.record(result)
    with lab.database.reading() as tx:
        seen = tx.execute(select(schema.v_statistics).order_by(text("name"))).all()
        lines = list(exchange.export_run(tx, job.run))
        stored = tx.execute(select(schema.measurement.c.samples)).scalars().first()
        [attempt] = tx.execute(select(schema.attempt)).all()
    [line] = [line.record for line in transcript.read_records(lines) if line.kind == "job"]
    assert line.verdict == result.verdict
    assert line.statistics == statistics
    assert [(row.name, row.value, row.job) for row in seen] == [
        (one.name, one.value, job.id) for one in statistics
    ]
    assert sorted(line.timings, key=lambda t: t.metric) == sorted(
        result.timings, key=lambda t: t.metric
    )
    assert isinstance(stored, bytes)
    assert unpack_samples(line.timings[0].samples)
    assert (attempt.variant, attempt.kernel_sha) == (result.variant, result.kernel_sha)
    assert (attempt.environment, attempt.worker) == (result.environment, result.worker)
    assert (attempt.started_at, attempt.seconds) == (result.started, result.seconds)
    assert attempt.telemetry == result.telemetry


def test_the_same_result_again_changes_nothing(lab: Lab, job: Job) -> None:
    result = lab.answer(job)
    lab.record(result, result)
    before = row(lab, job)
    lab.now += 60
    again = lab.record(result, replace(result, outcome=Outcome.CRASHED))
    assert (again.duplicates, again.counts) == (2, {})
    assert row(lab, job) == before
    assert count(lab, schema.attempt) == 1


@pytest.mark.parametrize("outcome", UNSETTLED)
def test_a_job_has_three_tries(lab: Lab, job: Job, outcome: Outcome) -> None:
    device = lab.add_device()
    for tried in range(1, MAX_TRIES):
        assert lab.record(lab.answer(job, outcome)).counts == {JobState.QUEUED: 1}
        stored = row(lab, job)
        assert (stored.tries, stored.cause, stored.finished_at) == (tried, outcome, None)
        [job] = lab.pick(device)
    assert lab.record(lab.answer(job, outcome)).counts == {JobState.FAILED: 1}
    stored = row(lab, job)
    assert (stored.state, stored.tries, stored.cause) == (JobState.FAILED, MAX_TRIES, outcome)
    assert (stored.reason, stored.finished_at) == (f"because {outcome}", lab.now)
    assert lab.pick(device) == []
    assert count(lab, schema.attempt) == MAX_TRIES


def test_a_job_that_is_handed_back_waits_as_if_it_was_never_sent(lab: Lab, job: Job) -> None:
    back = lab.answer(job, Outcome.HANDED_BACK)
    assert lab.record(back).returned == 1
    assert lab.record(back).late == 1
    with lab.database.reading() as tx:
        row = tx.execute(select(schema.job)).one()
        assert tx.execute(select(func.count()).select_from(schema.attempt)).scalar() == 0
    assert (row.state, row.tries, row.dispatches, row.token) == (JobState.QUEUED, 0, 0, 1)


def test_a_job_that_recovers_shows_no_cause(lab: Lab, job: Job) -> None:
    lab.record(lab.answer(job, Outcome.CRASHED))
    [job] = lab.pick(lab.add_device())
    lab.record(lab.answer(job))
    stored = row(lab, job)
    assert (stored.state, stored.cause, stored.reason, stored.tries) == ("passed", "", "", 1)
    assert stored.settled_token == 2


def test_the_first_settling_result_wins_whatever_its_token(lab: Lab, job: Job) -> None:
    device = lab.add_device()
    with lab.database.transaction() as tx:
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    [again] = lab.pick(device)
    assert lab.record(lab.answer(job, seconds=1e-3)).counts == {JobState.PASSED: 1}
    late = lab.record(lab.answer(again, Outcome.WRONG), lab.answer(again))
    assert (late.counts, late.late, late.duplicates) == ({}, 1, 1)
    stored = row(lab, job)
    assert (stored.state, stored.settled_token, stored.token) == (JobState.PASSED, 1, 2)
    assert (count(lab, schema.attempt), count(lab, schema.verdict)) == (2, 1)


def test_an_old_tokens_failure_costs_a_try_and_moves_nothing(lab: Lab, job: Job) -> None:
    """A job that takes its worker along is always heard of after it was given up as lost."""
    device = lab.add_device()
    with lab.database.transaction() as tx:
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    [again] = lab.pick(device)
    late = lab.record(lab.answer(job, Outcome.WORKER_DIED))
    assert (late.counts, late.late) == ({}, 1)
    stored = row(lab, job)
    assert (stored.state, stored.tries, stored.cause) == ("dispatched", 1, Outcome.WORKER_DIED)
    assert lab.record(lab.answer(again)).counts == {JobState.PASSED: 1}


def test_old_tokens_can_use_up_the_tries(lab: Lab, job: Job) -> None:
    device = lab.add_device()
    sent = [job]
    for _ in range(MAX_TRIES):
        with lab.database.transaction() as tx:
            store.return_lost(tx, [(job.id, job.token)], lab.now)
        [job] = lab.pick(device)
        sent.append(job)
    recorded = lab.record(*(lab.answer(old, Outcome.WORKER_DIED) for old in sent[:MAX_TRIES]))
    assert (recorded.counts, recorded.late) == ({JobState.FAILED: 1}, MAX_TRIES - 1)
    assert row(lab, job).cause == Outcome.WORKER_DIED


def test_a_lost_job_that_is_heard_of_before_it_is_sent_again(lab: Lab, job: Job) -> None:
    with lab.database.transaction() as tx:
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    assert lab.record(lab.answer(job, Outcome.CRASHED)).late == 1
    assert (row(lab, job).state, row(lab, job).tries) == (JobState.QUEUED, 1)


def test_one_batch_may_hold_a_jobs_whole_life(lab: Lab, job: Job) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [other] = lab.pick(device)
    crash = lab.answer(job, Outcome.CRASHED)
    recorded = lab.record(crash, lab.answer(other), crash, lab.answer(job))
    assert (recorded.counts, recorded.duplicates) == ({JobState.QUEUED: 1, JobState.PASSED: 1}, 2)


def test_results_of_other_databases_are_unknown(lab: Lab, job: Job) -> None:
    good = lab.answer(job)
    strangers = [
        replace(good, job=job.id + 1000),
        replace(good, job=2**60),
        replace(good, job=-1),
        replace(good, job=0),
        replace(good, token=2),  # never sent
        replace(good, token=0),
        replace(good, token=-(2**70)),
        replace(good, case="add/f32/h1_w1"),  # another database's job of this number
    ]
    recorded = lab.record(*strangers)
    assert (recorded.unknown, recorded.counts) == (len(strangers), {})
    assert row(lab, job).state == JobState.DISPATCHED
    assert count(lab, schema.attempt) == 0


def with_verdict(**changes: Any) -> Change:
    def change(result: Result) -> Result:
        assert result.verdict
        return replace(result, verdict=replace(result.verdict, **changes))

    return change


def with_timing(**changes: Any) -> Change:
    def change(result: Result) -> Result:
        return replace(result, timings=(replace(result.timings[0], **changes),))

    return change


@pytest.mark.parametrize(
    "change",
    [
        with_timing(seconds=float("nan")),
        with_timing(seconds=float("inf")),
        with_timing(samples="not base64!"),
        with_timing(samples="AAAA"),
        with_timing(count=2**40),
        with_timing(bytes_moved=2**70),
        with_verdict(nmse=float("nan")),
        with_verdict(total=2**80),
        lambda result: replace(result, seconds=float("-inf")),
        lambda result: replace(result, started=float("nan")),
        lambda result: replace(result, started=1e300),
        lambda result: replace(result, started=-5.0),
        lambda result: replace(result, telemetry={"clock": float("nan")}),
        lambda result: replace(result, telemetry={str(number): 1.0 for number in range(257)}),
        lambda result: replace(result, telemetry={"c" * 1001: 1.0}),
        lambda result: replace(result, telemetry={"a\0b": 1.0}),
        lambda result: replace(result, timings=result.timings[:1] * 2),
        lambda result: replace(result, statistics=(REGISTERS, REGISTERS)),
        lambda result: replace(result, statistics=(replace(REGISTERS, value=float("nan")),)),
        with_timing(samples=pack_samples([0.0] * (2**22 + 1))),
        with_timing(warnings=("noisy",) * 101),
    ],
)
def test_numbers_that_make_no_sense_are_an_error_of_the_job(
    lab: Lab, job: Job, change: Change
) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [mate] = lab.pick(device)
    recorded = lab.record(change(lab.answer(job)), lab.answer(mate))
    assert recorded.counts == {JobState.QUEUED: 1, JobState.PASSED: 1}
    stored = row(lab, job)
    assert (stored.cause, stored.tries) == (Outcome.ERROR, 1)
    assert stored.reason.startswith("malformed result: ")


def test_text_that_makes_no_sense_is_cleaned(lab: Lab, job: Job) -> None:
    result = lab.answer(job)
    assert result.verdict
    foul = "nul\0, half a pair \ud800, " + "long " * 100_000
    lab.record(
        replace(
            result,
            reason=foul,
            variant=foul,
            verdict=replace(result.verdict, first_bad=foul),
            timings=(replace(result.timings[0], metric="hot\0", warnings=("a\0b",)),),
        )
    )
    with lab.database.reading() as tx:
        [shown] = results(tx)
    assert shown.metric == "hot"
    assert shown.reason.startswith("nul, half a pair ?, long")
    assert len(shown.reason) < 5000
    assert shown.warnings == ["ab"]


def test_an_unknown_environment_does_not_lose_a_result(lab: Lab, job: Job) -> None:
    lab.record(replace(lab.answer(job), environment="e" * 64))
    with lab.database.reading() as tx:
        shown = results(tx)[0]
    assert (shown.state, shown.environment, shown.driver) == ("passed", "e" * 64, None)


def test_a_large_batch_is_recorded_and_correctness_has_no_timing(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, 1300, mode=Mode.CORRECTNESS)
    jobs = lab.pick(device, 2000)
    recorded = lab.record(*(lab.answer(job) for job in jobs))
    assert recorded.counts == {JobState.PASSED: 1300}
    assert set(lab.states(run)) == {JobState.PASSED}
    assert count(lab, schema.measurement) == 0
