"""Redis dies, forgets or fills up, SQL is away: nothing is lost or doubled."""

import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from cluster import Lab, until
from postgres_server import PostgresServer
from vkbench.job import JobState

MakeLab = Callable[..., Lab]


def work(lab: Lab) -> int:
    lab.start_scheduler()
    lab.start_worker("a")
    lab.start_worker("b")
    first = lab.submit(["sleep/f32/n50"] * 60, "a")
    lab.submit(["sleep/f32/n50"] * 60, "b")
    lab.await_start(6)
    return first


@pytest.mark.parametrize("appendonly", [True, False])
def test_redis_is_killed_and_comes_back(make_lab: MakeLab, appendonly: bool) -> None:
    lab = make_lab(appendonly=appendonly)
    run = work(lab)
    lab.redis.kill()
    time.sleep(1.5)
    lab.redis.start()
    lab.await_end(run, run + 1, seconds=30)
    lab.check(run, run + 1)
    assert lab.counts(run) == {JobState.PASSED: 60}
    assert {row.tries for row in lab.jobs(run)} == {0}


def test_redis_forgets_everything(lab: Lab) -> None:
    run = work(lab)
    lab.redis.client.flushall()
    flushed_at = time.monotonic()
    lab.await_end(run, run + 1, seconds=30)
    lab.check(run, run + 1)
    assert lab.counts(run) == {JobState.PASSED: 60}
    assert time.monotonic() - flushed_at < 20


def test_a_frozen_redis_wedges_no_process(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_fleet("a")
    run = lab.submit(["sleep/f32/n50"] * 60)
    lab.await_start(6)
    lab.redis.freeze(8)  # longer than every socket waits
    lab.await_end(run, seconds=50)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 60}
    assert {row.tries for row in lab.jobs(run)} == {0}


def fill(redis: Redis, size: int) -> None:
    """Store pieces of this size until Redis refuses one."""
    while True:
        try:
            redis.set(f"ballast:{uuid4()}", b"x" * size)
        except OutOfMemoryError:
            return


def test_a_full_redis_is_waited_out(make_lab: MakeLab) -> None:
    lab = make_lab(maxmemory="8mb")
    scheduler = lab.start_scheduler()
    worker = lab.start_fleet("a")
    redis = lab.redis.client
    fill(redis, 65536)
    run = lab.submit(["sleep/f32/n20"] * 20)
    full_until = time.monotonic() + 5  # longer than a lease lives: the worker cannot even renew it
    while time.monotonic() < full_until:
        fill(redis, 1024)  # the gaps, and what keys that expire give back
        time.sleep(0.05)
    assert scheduler.poll() is None
    assert worker.poll() is None
    # Redis takes a message now and then, while a connection closes; the run cannot end by those.
    assert lab.ended(run) < 10
    for key in redis.scan_iter("ballast*"):
        redis.delete(key)
    lab.await_end(run)
    lab.check(run)
    assert max(row.dispatches for row in lab.jobs(run)) <= 3


def test_results_wait_for_the_database(lab: Lab, postgres: PostgresServer) -> None:
    # What cannot be recorded stays in the stream; no job runs again for it.
    scheduler = lab.start_scheduler()
    lab.start_worker("a")
    run = lab.submit(["sleep/f32/n50"] * 30)
    lab.await_start(5)
    postgres.stop()
    until(lambda: len(lab.events("end")) >= 30, "the worker waits for the database", 20)
    time.sleep(3)
    postgres.start()
    lab.await_end(run)
    lab.check(run)
    assert len(lab.events("start")) == 30
    assert scheduler.poll() is None
