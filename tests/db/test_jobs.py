"""The pick and what may happen to a job until its result comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, update

import vkbench
from databases import ENVIRONMENT, Lab
from vkbench.device import device_key
from vkbench.job import MAX_DISPATCHES, MAX_TRIES, Job, JobState, Mode, Outcome, Source
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_db.work.devices import store_device


def runs_of(lab: Lab, jobs: Iterable[Job]) -> list[int]:
    return [job.run for job in jobs]


def lose(lab: Lab, *jobs: Job, now: float | None = None) -> store.Returned:
    with lab.database.transaction() as tx:
        return store.return_lost(tx, [(job.id, job.token) for job in jobs], now or lab.now)


def test_a_job_without_a_file_has_none(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    [job] = lab.pick(device)
    assert job.source is None
    with lab.database.reading() as tx:
        assert tx.execute(select(schema.job.c.source).where(schema.job.c.source.is_(None))).all()


def test_a_picked_job_holds_all_that_a_runner_needs(lab: Lab) -> None:
    device = lab.add_device()
    source = Source(path="/models/a.gguf", tensor="blk.0.attn_q.weight")
    run = lab.submit(
        device, [7], variant="subgroup", bundle="ab" * 32, limit_seconds=9.0, measure_seconds=0.5,
        noise=0.01, estimate_seconds=0.25, source=source,
    )  # fmt: skip
    with lab.database.transaction() as tx:
        [picked] = store.pick(tx, device, 10, lab.now)
    job = picked.job
    assert (job.case, job.mode) == ("mul_mat_vec/q4_0/m7_n1_k256", Mode.PERFORMANCE)
    assert (job.variant, job.bundle) == ("subgroup", "ab" * 32)
    assert (job.limit_seconds, job.measure_seconds, job.noise) == (9.0, 0.5, 0.01)
    assert (job.token, job.alone, job.run) == (1, False, run)
    assert job.source == source
    assert (picked.run, picked.estimate_seconds) == (run, 0.25)
    assert lab.states(run) == [JobState.DISPATCHED]
    with lab.database.reading() as tx:
        [sent] = store.dispatched_before(tx, lab.now + 1)
        assert store.dispatched_before(tx, lab.now) == []
    assert (sent.job, sent.token, sent.run, sent.device) == (job.id, 1, run, device)
    assert sent.dispatched_at == lab.now


def test_runs_take_turns_also_from_pick_to_pick(lab: Lab) -> None:
    device = lab.add_device()
    a, b, c = (lab.submit(device, count) for count in (4, 2, 3))
    assert runs_of(lab, lab.pick(device, 9)) == [a, b, c, a, b, c, a, c, a]
    d, e = lab.submit(device, 3), lab.submit(device, 3)
    one_by_one = [lab.pick(device, 1)[0].run for _ in range(6)]
    assert one_by_one == [d, e, d, e, d, e]


def test_higher_priority_goes_first(lab: Lab) -> None:
    device = lab.add_device()
    low, high = lab.submit(device, 3, priority=-1), lab.submit(device, 2, priority=5)
    later = lab.submit(device, 1, priority=5)
    assert runs_of(lab, lab.pick(device, 5)) == [high, later, high, low, low]
    urgent = lab.submit(device, 1, priority=9)
    assert runs_of(lab, lab.pick(device, 5)) == [urgent, low]


def test_many_runs_with_uneven_queues_lose_no_job(lab: Lab) -> None:
    device = lab.add_device()
    counts = {lab.submit(device, count): count for count in (1, 40, 3, 17, 9)}
    picked = runs_of(lab, lab.pick(device, 23)) + runs_of(lab, lab.pick(device, 1000))
    assert {run: picked.count(run) for run in counts} == counts


def test_a_pick_ends_at_its_seconds(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 10, estimate_seconds=0.5)
    assert len(lab.pick(device, 100, seconds=1.75)) == 4
    with lab.database.reading() as tx:
        assert store.loads(tx, [device])[device] == store.DeviceLoad(jobs=4, seconds=2.0)
    assert len(lab.pick(device, 100, seconds=0.01)) == 1  # a long job goes all the same


def test_what_was_learned_replaces_the_first_estimate(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, [1, 2, 3, 4], estimate_seconds=0.1)
    case = ("mul_mat_vec/q4_0/m2_n1_k256", str(Mode.PERFORMANCE))
    learned = store.Recent(by_case={case: 5.0})
    with lab.database.transaction() as tx:
        wanted = store.Wanted(device=device, jobs=9, seconds=1.0, learned=learned)
        picked = store.pick_all(tx, [wanted], lab.now)[device]
        assert [job.estimate_seconds for job in picked] == [0.1, 5.0]
        assert store.loads(tx, [device])[device] == store.DeviceLoad(jobs=2, seconds=5.1)


def test_a_pick_has_as_many_jobs_as_fill_its_seconds(lab: Lab) -> None:
    """And not one more for what adding numbers loses."""
    device = lab.add_device()
    lab.submit(device, 20, estimate_seconds=0.15)
    assert len(lab.pick(device, 100, seconds=1.5)) == 10


def test_checks_are_expected_to_take_what_others_took(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 50, mode=Mode.CORRECTNESS, estimate_seconds=0.15)
    with lab.database.transaction() as tx:
        learned = store.Recent(check=0.05)
        wanted = store.Wanted(device=device, jobs=100, seconds=1.5, learned=learned)
        picked = store.pick_all(tx, [wanted], lab.now)[device]
    assert len(picked) == 30


def test_a_pick_can_keep_to_one_run(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 3, priority=9)
    mine = lab.submit(device, 2)
    assert runs_of(lab, lab.pick(device, 9, run=mine)) == [mine, mine]


def test_devices_are_served_apart_and_pause(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader")
    lab.submit(first, 2)
    run = lab.submit(second, 2)
    with lab.database.transaction() as tx:
        assert store.pause(tx, second, store.Pause())
        assert not store.pause(tx, "0" * 12, store.Pause())
    lab.add_device("SwiftShader")  # its next announcement does not resume it
    assert len(lab.pick(first)) == 2
    assert lab.pick(second) == []
    with lab.database.transaction() as tx:
        store.resume(tx, second, time.time())
    assert runs_of(lab, lab.pick(second)) == [run, run]
    assert lab.pick("0" * 12) == []


def test_running_is_noted_for_the_token_that_runs(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, 2)
    first, second = lab.pick(device)
    with lab.database.transaction() as tx:
        assert store.mark_running(tx, [(first.id, first.token), (second.id, 7), (999, 1)]) == 1
        assert store.mark_running(tx, [(first.id, first.token)]) == 0
    assert lab.states(run) == [JobState.RUNNING, JobState.DISPATCHED]
    lab.record(lab.answer(first))
    with lab.database.transaction() as tx:
        assert store.mark_running(tx, [(first.id, first.token)]) == 0
    assert lab.states(run)[0] == JobState.PASSED


def test_lost_jobs_go_back_without_a_try(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, 2)
    first, second = lab.pick(device)
    with lab.database.transaction() as tx:
        store.mark_running(tx, [(first.id, first.token)])
    assert lose(lab, first, second) == store.Returned(queued=2, failed=0)
    assert lose(lab, first, second) == store.Returned(queued=0, failed=0)
    again = lab.pick(device)
    assert [(job.id, job.token, job.alone) for job in again] == [
        (first.id, 2, False),
        (second.id, 2, False),
    ]
    # who missed the second dispatch cannot take it back
    assert lose(lab, first) == store.Returned(queued=0, failed=0)
    assert lab.states(run) == [JobState.DISPATCHED] * 2


def test_a_job_that_is_always_lost_fails_in_the_end(lab: Lab) -> None:
    device, seen_at = lab.add_device(), lab.now
    run = lab.submit(device, 1)
    for _ in range(MAX_DISPATCHES - 1):
        assert lose(lab, *lab.pick(device)).queued == 1
    lab.now += 3600
    sent_at = lab.now
    [last] = lab.pick(device)
    assert last.token == MAX_DISPATCHES
    assert lose(lab, last, now=lab.now + 9) == store.Returned(queued=0, failed=1)
    assert lab.states(run) == [JobState.FAILED]
    assert lab.pick(device) == []
    with lab.database.reading() as tx:
        job = tx.execute(select(schema.job)).one()
    assert (job.cause, job.tries, job.finished_at) == (Outcome.LOST, 0, lab.now + 9)
    assert job.reason == (
        f"sent {MAX_DISPATCHES} times, last at {moment(sent_at)}, to llvmpipe on alpha, and never "
        f"heard of again: its worker alpha:1 (vkbench {ENVIRONMENT.vkbench}) last announced itself "
        f"at {moment(seen_at)}; this scheduler is vkbench {vkbench.__version__}"
    )


def test_a_job_for_a_device_that_no_worker_announced_says_so(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        store_device(tx, lab.facts())
    lab.submit(device_key("alpha", "llvmpipe"), 1)
    with lab.database.transaction() as tx:
        tx.execute(update(schema.job).values(dispatches=MAX_DISPATCHES - 1))
    lose(lab, *lab.pick(device_key("alpha", "llvmpipe")))
    with lab.database.reading() as tx:
        reason = tx.execute(select(schema.job.c.reason)).scalar_one()
    assert "no worker serves llvmpipe on alpha" in reason


def moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def test_a_job_that_failed_before_travels_alone(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 2)
    first, second = lab.pick(device)
    lab.record(lab.answer(first, Outcome.CRASHED))
    lose(lab, second)
    assert [job.alone for job in lab.pick(device)] == [True, False]
    assert MAX_TRIES > 1


@pytest.mark.parametrize("limit", [1, 7])
def test_two_dispatchers_never_pick_the_same(lab: Lab, limit: int) -> None:
    device = lab.add_device()
    lab.submit(device, 60), lab.submit(device, 60)
    picked: list[list[tuple[int, int]]] = [[], []]
    barrier = threading.Barrier(2)

    def dispatch(mine: list[tuple[int, int]]) -> None:
        barrier.wait()
        while jobs := lab.pick(device, limit):
            mine += [(job.id, job.token) for job in jobs]

    threads = [threading.Thread(target=dispatch, args=(mine,)) for mine in picked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    both = picked[0] + picked[1]
    assert len(both) == len(set(both)) == 120
    assert {token for _, token in both} == {1}


def test_writers_that_meet_do_not_block_each_other_for_good(lab: Lab) -> None:
    """Pick, record, lose and cancel the same jobs from three sides."""
    device = lab.add_device()
    runs = [lab.submit(device, 40) for _ in range(3)]
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for turn in range(200):
                jobs = lab.pick(device, 20)
                if not jobs:
                    return
                lab.record(*(lab.answer(job) for job in reversed(jobs[: turn % 20])))
                lose(lab, *reversed(jobs))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    with lab.database.transaction() as tx:
        store.cancel(tx, runs[1], lab.now)
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    assert errors == []
    assert not set(lab.states(runs[1])) - {JobState.PASSED, JobState.CANCELLED}


def test_the_pick_is_quick_in_a_long_queue(lab: Lab) -> None:
    """The next jobs of 50 runs, each of 40 jobs and then of 2,000: a window function reads all."""
    device = lab.add_device()

    def time_pick() -> float:
        taken = []
        for _ in range(9):
            began = time.monotonic()
            assert len(set(runs_of(lab, lab.pick(device, 50)))) == 50
            taken.append(time.monotonic() - began)
        return min(taken)

    queued = [lab.submit(device, [number % 50 + 1 for number in range(40)]) for _ in range(50)]
    short = time_pick()
    for run in queued:
        with lab.database.transaction() as tx:
            store.cancel(tx, run, lab.now)
    for _ in range(50):
        lab.submit(device, [number % 50 + 1 for number in range(2000)])
    assert time_pick() < 6 * short
