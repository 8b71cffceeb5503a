"""Every fault of one process: nothing is lost, nothing counts twice, what is at fault says so."""

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import Lab, alive, kill, until
from processes import children
from vkbench.job import JobState, Outcome
from vkbench.messages import wire
from vkbench.messages.wire import Lease
from vkbench.result import Result
from vkbench.settings import Sandbox

SHORT = "sleep/f32/n20"


def states(lab: Lab, run: int) -> list[str]:
    return [row.state for row in lab.jobs(run)]


def outcomes(lab: Lab, run: int, job: int) -> list[str]:
    return [outcome for number, _, outcome, _ in lab.attempts(run) if number == job]


def test_poison_fails_after_three_tries_and_its_mates_run_once(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    poison = ["segfault/f32/n1", "hang/f32/n1", "lose_device/f32/n1"]
    run = lab.submit([SHORT] * 10 + poison + [SHORT] * 10, limit=1)
    lab.await_end(run, seconds=40)
    lab.check(run)
    causes = {row.case: (row.state, row.cause, row.tries) for row in lab.jobs(run)}
    assert causes["segfault/f32/n1"] == (JobState.FAILED, Outcome.CRASHED, 3)
    assert causes["hang/f32/n1"] == (JobState.FAILED, Outcome.TIMED_OUT, 3)
    assert causes["lose_device/f32/n1"] == (JobState.FAILED, Outcome.DEVICE_LOST, 3)
    assert causes[SHORT] == (JobState.PASSED, "", 0)
    assert len(lab.attempts(run)) == 20 + 3 * 3
    reasons = {reason for *_, outcome, reason in lab.attempts(run) if outcome == Outcome.CRASHED}
    assert reasons == {"SIGSEGV"}
    # each attempt that broke a runner had a fresh one
    broken = [event.pid for event in lab.events("start") if event.job in range(11, 14)]
    assert len(set(broken)) == 9


def test_a_worker_whose_parent_dies_while_it_starts_ends(lab: Lab) -> None:
    """Else it would keep its device from the workers of the next parent."""
    fleet = lab.start("-m", "planted_fleet", "a", "b", log="fleet")
    until(lambda: len(children(fleet.pid)) == 2, "no worker starts", 20)
    workers = children(fleet.pid)
    kill(fleet)
    until(lambda: not any(map(alive, workers)), "a worker outlives its parent", 20)


def test_a_killed_runner_costs_its_job_one_try(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit(["sleep/f32/n1500", *[SHORT] * 10])
    lab.await_start()
    os.kill(lab.events("start")[0].pid, signal.SIGKILL)
    killed_at = time.time()
    lab.await_end(run)
    lab.check(run)
    first = lab.jobs(run)[0]
    assert (first.state, first.tries) == (JobState.PASSED, 1)
    assert outcomes(lab, run, first.id) == [Outcome.CRASHED, Outcome.PASSED]
    assert [row.tries for row in lab.jobs(run)[1:]] == [0] * 10
    following = [event.at for event in lab.events("start") if event.at > killed_at]
    assert following[0] - killed_at < 3


def test_a_killed_worker_costs_the_job_on_the_device_one_try(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker()
    run = lab.submit([SHORT] * 5 + ["sleep/f32/n1500"] + [SHORT] * 20)
    lab.await_start(6)
    runner = lab.events("start")[-1].pid
    lab.await_mark(lab.jobs(run)[5].id)
    kill(worker)
    until(lambda: not alive(runner), "an orphan runner keeps the device", 2)
    killed_at = time.monotonic()
    lab.start_worker()
    lab.await_end(run)
    assert time.monotonic() - killed_at < 15
    lab.check(run)
    tries = [row.tries for row in lab.jobs(run)]
    assert tries == [0] * 5 + [1] + [0] * 20
    assert outcomes(lab, run, lab.jobs(run)[5].id) == [Outcome.WORKER_DIED, Outcome.PASSED]


def test_a_case_that_kills_its_worker_fails_after_three(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(sandbox=Sandbox.OFF)  # a contained runner can kill nobody
    lab.start_scheduler()
    lab.start_fleet("a", "b")
    run = lab.submit([SHORT, "kill_worker/f32/n1", SHORT])
    other = lab.submit([SHORT] * 10, "b")
    lab.await_end(run, other, seconds=50)
    lab.check(run, other)
    runner = next(event.pid for event in lab.events("end") if event.device == lab.key("b"))
    assert b"--beside\x002\x00" in Path(f"/proc/{runner}/cmdline").read_bytes()
    # the marker may be one job behind, and a job that paid for that passes at its next try
    assert states(lab, run) == [JobState.PASSED, JobState.FAILED, JobState.PASSED]
    assert lab.jobs(run)[1].cause == Outcome.WORKER_DIED
    assert outcomes(lab, run, lab.jobs(run)[1].id) == [Outcome.WORKER_DIED] * 3


def test_sigterm_hands_back_what_has_not_begun(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(chunk_seconds=60.0, window_seconds=60.0)
    lab.start_scheduler()
    worker = lab.start_worker()
    lab.await_end(lab.submit(["sleep/f32/n100"] * 2))  # how long one takes is known
    run = lab.submit(["sleep/f32/n100"] * 60)
    lab.await_start(4)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    ended = len(lab.events("end"))
    assert ended < 2 + 30  # the chunk had all sixty
    assert (lab.folder / "worker-a.log").read_text().count("job_handed_back") == 62 - ended
    lab.start_worker()
    lab.await_end(run)
    lab.check(run)
    assert {row.tries for row in lab.jobs(run)} == {0}
    assert len(lab.events("end")) == 62  # none ran twice


def test_sigterm_hands_back_the_rest_at_once_and_ends_the_running_job(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker()
    run = lab.submit(["sleep/f32/n6000", *[SHORT] * 10])
    lab.await_start()
    worker.send_signal(signal.SIGTERM)
    until(lambda: lab.counts(run).get(JobState.QUEUED) == 10, "the rest stays", 3)
    assert not lab.events("end")
    assert worker.poll() is None
    assert worker.wait(10) == 0
    lab.start_worker()
    lab.await_end(run)
    lab.check(run)
    assert [(row.tries, row.token) for row in lab.jobs(run)] == [(0, 1)] + [(0, 2)] * 10
    assert {row.dispatches for row in lab.jobs(run)} == {1}  # a stop is no fault of a job


@pytest.mark.parametrize("seconds", [0.5, 60.0])
def test_a_running_job_goes_back_at_the_bound_or_at_the_second_sigterm(
    make_lab: Callable[..., Lab], seconds: float
) -> None:
    lab = make_lab(stop_seconds=seconds)
    lab.start_scheduler()
    fleet = lab.start_fleet("a")
    run = lab.submit(["sleep/f32/n20000", SHORT])
    lab.await_start()
    fleet.send_signal(signal.SIGTERM)
    if seconds > 1:
        until(lambda: lab.counts(run).get(JobState.QUEUED) == 1, "the rest stays", 3)
        fleet.send_signal(signal.SIGTERM)
    until(lambda: lab.counts(run) == {JobState.QUEUED: 2}, "the running job stays", 5)
    assert fleet.wait(10) == 0
    assert [(row.tries, row.dispatches) for row in lab.jobs(run)] == [(0, 0)] * 2
    assert lab.attempts(run) == []


def test_a_second_worker_waits_for_the_device_and_takes_over(lab: Lab) -> None:
    lab.start_scheduler()
    first = lab.start_worker()
    second = lab.start("-m", "vkbench_worker.service.main", "a", log="worker-second")
    run = lab.submit(["sleep/f32/n100"] * 15 + ["segfault/f32/n1"])
    lab.await_start(5)
    kill(first)
    lab.await_end(run)
    lab.check(run)
    assert second.poll() is None
    assert states(lab, run) == [JobState.PASSED] * 15 + [JobState.FAILED]


def test_a_message_that_comes_again_is_not_run_again(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker()
    run = lab.submit([SHORT] * 20)
    lab.await_start(1)
    messages = lab.redis.client.hvals(f"unacked:{lab.key('a')}")
    assert messages
    queue = f"vk:queue:{lab.key('a')}"
    for message in messages:
        lab.redis.client.rpush(queue, json.dumps(json.loads(message)[0]))
    lab.await_end(run)
    lab.redis.client.rpush(queue, *[json.dumps(json.loads(message)[0]) for message in messages])
    until(lambda: not lab.redis.client.llen(queue), "the copies stay")
    time.sleep(0.5)
    lab.check(run)
    assert len(lab.events("start")) == 20
    assert worker.poll() is None


def test_the_late_result_of_an_old_token_counts_once(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker()
    run = lab.submit(["sleep/f32/n500"])
    lab.await_start()
    worker.send_signal(signal.SIGSTOP)  # the runner goes on, its result stays unread
    until(lambda: lab.jobs(run)[0].state == JobState.QUEUED, "the job is not missed", 20)
    # as if another worker had the device
    lease = wire.encode(Lease(worker="other", jobs=()))
    lab.redis.client.set(wire.lease_of(lab.key("a")), lease, ex=wire.LEASE_SECONDS)
    until(lambda: lab.jobs(run)[0].token == 2, "the job is not sent again")
    worker.send_signal(signal.SIGCONT)
    lab.await_end(run)
    until(lambda: len(lab.attempts(run)) == 2, "the second attempt is not heard of", 20)
    lab.check(run)
    job = lab.jobs(run)[0]
    assert (job.state, job.tries, job.settled_token) == (JobState.PASSED, 0, 1)


@pytest.mark.parametrize(
    "point", ["before_commit", "after_commit", "before_publish", "mid_publish"]
)
def test_a_scheduler_killed_between_two_steps(lab: Lab, point: str) -> None:
    first = lab.start_scheduler()
    lab.start_worker()
    kill(first)
    run = lab.submit([SHORT] * 150)
    fragile = lab.start_scheduler(dies_at=point)
    assert fragile.wait(20) == -signal.SIGKILL
    lab.start_scheduler()
    lab.await_end(run)
    lab.check(run)
    assert set(states(lab, run)) == {JobState.PASSED}


def test_an_entry_that_is_never_deleted_holds_up_nothing(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(lost_seconds=1.0)
    lab.start_scheduler()
    worker = lab.start_worker()
    run = lab.submit(["sleep/f32/n200"] * 10)
    lab.await_start(2)
    kill(worker)
    # a collector died after it had acknowledged the result of a job that never ran, in the eyes of
    # SQL
    lost = lab.jobs(run)[9]
    redis, result = lab.redis.client, Result(job=lost.id, token=lost.token, outcome=Outcome.ERROR)
    with redis.pipeline(transaction=True) as pipe:
        pipe.xadd(wire.RESULTS, {wire.RESULT_FIELD: wire.encode(result)})
        pipe.xreadgroup(wire.RESULTS_GROUP, "dead", {wire.RESULTS: ">"})
        added, _ = pipe.execute()
    redis.xack(wire.RESULTS, wire.RESULTS_GROUP, added)
    lab.start_worker()
    lab.await_end(run)
    lab.check(run)
    assert set(states(lab, run)) == {JobState.PASSED}
    assert redis.xlen(wire.RESULTS) == 1


def test_a_full_disk_costs_no_job_a_try(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker()
    lab.await_end(lab.submit([SHORT]))
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    run = lab.submit([SHORT] * 10)
    until(lambda: min(row.token for row in lab.jobs(run)) >= 1, "not all are sent", 20)
    until(lambda: lab.counts(run) == {JobState.QUEUED: 10}, "the jobs do not go back", 20)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    lab.await_end(run)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 10}
    assert {(row.tries, row.dispatches) for row in lab.jobs(run)} == {(0, 1)}
