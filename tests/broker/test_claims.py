"""Claims: each (job, token) once, whatever is asked again, and next to no memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cluster import Lab, until
from vkbench.job import Job, JobState, Mode
from vkbench.messages.wire import claim_of
from vkbench_worker.service.claims import claim

BYTES_A_JOB = 4


def jobs(*ids: int, token: int = 1) -> list[Job]:
    return [
        Job(id=number, token=token, case="sleep/f32/n1", mode=Mode.CORRECTNESS) for number in ids
    ]


def test_each_job_is_claimed_once_for_each_token(lab: Lab) -> None:
    redis = lab.redis.client
    assert claim(redis, jobs(1, 2, 2**15, 2**31 - 1)) == jobs(1, 2, 2**15, 2**31 - 1)
    assert claim(redis, jobs(2, 3, 2**31 - 1)) == jobs(3)
    assert claim(redis, jobs(1, 2, token=2)) == jobs(1, 2, token=2)
    assert claim(redis, []) == []
    assert all(redis.ttl(key) > 7000 for key in redis.keys("vk:claim:*"))


def test_workers_that_claim_at_once_share_nothing(lab: Lab) -> None:
    ids = range(1, 2001)
    with ThreadPoolExecutor(4) as pool:
        claimed = list(pool.map(lambda _: claim(lab.redis.client, jobs(*ids)), range(4)))
    assert sorted(job.id for some in claimed for job in some) == list(ids)


def test_the_claims_of_many_jobs_take_little_memory(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(appendonly=False)
    redis = lab.redis.client
    before = redis.info("memory")["used_memory_dataset"]
    many = 50_000
    for first in range(1, many, 1000):
        claim(redis, jobs(*range(first, first + 1000)))
    after = redis.info("memory")["used_memory_dataset"]
    assert after - before < BYTES_A_JOB * many


def test_a_key_of_the_wrong_type_holds_no_worker_up(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    bitmaps = {claim_of(job, token)[0] for job in range(1, 4) for token in range(1, 4)}
    for bitmap in bitmaps:
        lab.redis.client.rpush(bitmap, "no bits")
    run = lab.submit(["sleep/f32/n1"] * 3)
    log = lab.folder / "worker-a.log"
    until(lambda: "claim_failed" in log.read_text(), "the worker says nothing", 20)
    until(lambda: lab.counts(run) == {JobState.QUEUED: 3}, "the jobs stay with the worker", 20)
    assert not lab.events()
    assert {row.tries for row in lab.jobs(run)} == {0}
