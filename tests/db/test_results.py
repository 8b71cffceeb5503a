"""Results come in: once, first wins, and nothing that a runner says can stop the store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from vkbench.job import MAX_TRIES, Mode, Outcome, State
from vkbench.result import Result, unpack_samples
from vkbench_db import exchange, models, queries, store, transcript

UNSETTLED = [
    Outcome.ERROR,
    Outcome.CRASHED,
    Outcome.TIMED_OUT,
    Outcome.DEVICE_LOST,
    Outcome.WORKER_DIED,
]


def row(lab, job):
    with lab.database.reading() as tx:
        return tx.execute(select(models.Job.__table__).where(models.Job.id == job.id)).one()


def count(lab, model) -> int:
    with lab.database.reading() as tx:
        return tx.execute(select(func.count()).select_from(model)).scalar_one()


@pytest.fixture
def job(lab):
    """A job in flight."""
    device = lab.add_device()
    lab.submit(device, 1)
    return lab.pick(device)[0]


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.WRONG, Outcome.SKIPPED])
def test_a_settling_result_ends_its_job(lab, job, outcome: Outcome) -> None:
    recorded = lab.record(lab.answer(job, outcome))
    assert recorded == store.Recorded(counts={State(outcome): 1})
    stored = row(lab, job)
    assert (stored.state, stored.settled_token, stored.finished_at) == (outcome, 1, lab.now)
    assert stored.reason == ("" if outcome == Outcome.PASSED else f"because {outcome}")
    assert count(lab, models.Verdict) == (outcome != Outcome.SKIPPED)
    assert count(lab, models.Measurement) == 2 * (outcome == Outcome.PASSED)


def test_all_of_a_result_is_kept(lab, job) -> None:
    result = lab.answer(job)
    lab.record(result)
    with lab.database.reading() as tx:
        lines = list(exchange.export_run(tx, job.run))
        stored = tx.execute(select(models.Measurement.samples)).scalars().first()
        [attempt] = tx.execute(select(models.Attempt.__table__)).all()
    [line] = [line.record for line in transcript.read(lines) if line.kind == "job"]
    assert line.verdict == result.verdict
    assert sorted(line.timings, key=lambda t: t.metric) == sorted(
        result.timings, key=lambda t: t.metric
    )
    assert isinstance(stored, bytes)
    assert unpack_samples(line.timings[0].samples)
    assert (attempt.variant, attempt.kernel_sha) == (result.variant, result.kernel_sha)
    assert (attempt.environment, attempt.worker) == (result.environment, result.worker)
    assert (attempt.started_at, attempt.seconds) == (result.started, result.seconds)
    assert attempt.telemetry == result.telemetry


def test_the_same_result_again_changes_nothing(lab, job) -> None:
    result = lab.answer(job)
    lab.record(result, result)
    before = row(lab, job)
    lab.now += 60
    again = lab.record(result, replace(result, outcome=Outcome.CRASHED))
    assert (again.duplicates, again.counts) == (2, {})
    assert row(lab, job) == before
    assert count(lab, models.Attempt) == 1


@pytest.mark.parametrize("outcome", UNSETTLED)
def test_a_job_has_three_tries(lab, job, outcome: Outcome) -> None:
    device = lab.add_device()
    for tried in range(1, MAX_TRIES):
        assert lab.record(lab.answer(job, outcome)).counts == {State.QUEUED: 1}
        stored = row(lab, job)
        assert (stored.tries, stored.cause, stored.finished_at) == (tried, outcome, None)
        [job] = lab.pick(device)
    assert lab.record(lab.answer(job, outcome)).counts == {State.FAILED: 1}
    stored = row(lab, job)
    assert (stored.state, stored.tries, stored.cause) == (State.FAILED, MAX_TRIES, outcome)
    assert (stored.reason, stored.finished_at) == (f"because {outcome}", lab.now)
    assert lab.pick(device) == []
    assert count(lab, models.Attempt) == MAX_TRIES


def test_a_job_that_recovers_shows_no_cause(lab, job) -> None:
    lab.record(lab.answer(job, Outcome.CRASHED))
    [job] = lab.pick(lab.add_device())
    lab.record(lab.answer(job))
    stored = row(lab, job)
    assert (stored.state, stored.cause, stored.reason, stored.tries) == ("passed", "", "", 1)
    assert stored.settled_token == 2


def test_the_first_settling_result_wins_whatever_its_token(lab, job) -> None:
    device = lab.add_device()
    with lab.database.transaction() as tx:
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    [again] = lab.pick(device)
    assert lab.record(lab.answer(job, seconds=1e-3)).counts == {State.PASSED: 1}
    late = lab.record(lab.answer(again, Outcome.WRONG), lab.answer(again))
    assert (late.counts, late.late, late.duplicates) == ({}, 1, 1)
    stored = row(lab, job)
    assert (stored.state, stored.settled_token, stored.token) == (State.PASSED, 1, 2)
    assert (count(lab, models.Attempt), count(lab, models.Verdict)) == (2, 1)


def test_an_old_tokens_failure_costs_a_try_and_moves_nothing(lab, job) -> None:
    """A job that takes its worker along is always heard of after it was given up as lost."""
    device = lab.add_device()
    with lab.database.transaction() as tx:
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    [again] = lab.pick(device)
    late = lab.record(lab.answer(job, Outcome.WORKER_DIED))
    assert (late.counts, late.late) == ({}, 1)
    stored = row(lab, job)
    assert (stored.state, stored.tries, stored.cause) == ("dispatched", 1, Outcome.WORKER_DIED)
    assert lab.record(lab.answer(again)).counts == {State.PASSED: 1}


def test_old_tokens_can_use_up_the_tries(lab, job) -> None:
    device = lab.add_device()
    sent = [job]
    for _ in range(MAX_TRIES):
        with lab.database.transaction() as tx:
            store.return_lost(tx, [(job.id, job.token)], lab.now)
        [job] = lab.pick(device)
        sent.append(job)
    recorded = lab.record(*(lab.answer(old, Outcome.WORKER_DIED) for old in sent[:MAX_TRIES]))
    assert (recorded.counts, recorded.late) == ({State.FAILED: 1}, MAX_TRIES - 1)
    assert row(lab, job).cause == Outcome.WORKER_DIED


def test_a_lost_job_that_is_heard_of_before_it_is_sent_again(lab, job) -> None:
    with lab.database.transaction() as tx:
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    assert lab.record(lab.answer(job, Outcome.CRASHED)).late == 1
    assert (row(lab, job).state, row(lab, job).tries) == (State.QUEUED, 1)


def test_one_batch_may_hold_a_jobs_whole_life(lab, job) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [other] = lab.pick(device)
    crash = lab.answer(job, Outcome.CRASHED)
    recorded = lab.record(crash, lab.answer(other), crash, lab.answer(job))
    assert (recorded.counts, recorded.duplicates) == ({State.QUEUED: 1, State.PASSED: 1}, 2)


def test_results_of_other_databases_are_unknown(lab, job) -> None:
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
    assert row(lab, job).state == State.DISPATCHED
    assert count(lab, models.Attempt) == 0


def with_verdict(**changes: object):
    return lambda result: replace(result, verdict=replace(result.verdict, **changes))


def with_timing(**changes: object):
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
        lambda result: replace(result, timings=result.timings[:1] * 2),
    ],
)
def test_numbers_that_make_no_sense_are_an_error_of_the_job(lab, job, change) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [mate] = lab.pick(device)
    recorded = lab.record(change(lab.answer(job)), lab.answer(mate))
    assert recorded.counts == {State.QUEUED: 1, State.PASSED: 1}
    stored = row(lab, job)
    assert (stored.cause, stored.tries) == (Outcome.ERROR, 1)
    assert stored.reason.startswith("malformed result: ")


def test_text_that_makes_no_sense_is_cleaned(lab, job) -> None:
    result = lab.answer(job)
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
        [shown] = queries.results(tx)
    assert shown.metric == "hot"
    assert shown.reason.startswith("nul, half a pair ?, long")
    assert len(shown.reason) < 5000
    assert shown.warnings == ["ab"]


def test_an_unknown_environment_does_not_lose_a_result(lab, job) -> None:
    lab.record(replace(lab.answer(job), environment="e" * 64))
    with lab.database.reading() as tx:
        shown = queries.results(tx)[0]
    assert (shown.state, shown.environment, shown.driver) == ("passed", "e" * 64, None)


def test_a_large_batch_is_recorded_and_correctness_has_no_timing(lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, 1300, mode=Mode.CORRECTNESS)
    jobs = lab.pick(device, 2000)
    recorded = lab.record(*(lab.answer(job) for job in jobs))
    assert recorded.counts == {State.PASSED: 1300}
    assert set(lab.states(run)) == {State.PASSED}
    assert count(lab, models.Measurement) == 0
