"""What vkbench leaves in Redis expires, or is as large after many jobs as after few."""

from __future__ import annotations

from redis import Redis

from cluster import Lab, until
from vkbench.messages import wire

SHORT = "sleep/f32/n1"


def lasting(redis: Redis) -> set[str]:
    """The keys that never expire."""
    return {key.decode() for key in redis.scan_iter(count=1000) if redis.ttl(key) == -1}


def test_what_a_worker_leaves_behind_expires(lab: Lab) -> None:
    redis = lab.redis.client
    lab.start_scheduler()
    worker = lab.start_worker("a")
    lab.submit(["sleep/f32/n1000"] * 9, "a")
    lab.await_start(1)
    kept = (wire.queue_of(lab.key("a")), *wire.unacknowledged_of(lab.key("a"))[:2])
    until(lambda: redis.ttl(kept[1]) > 0, "what the worker holds does not expire")
    worker.kill()
    worker.wait()
    left = [key for key in kept if redis.exists(key)]
    assert left
    assert all(0 < redis.ttl(key) <= wire.QUEUE_SECONDS for key in left)


def test_no_key_grows_with_jobs(lab: Lab) -> None:
    redis = lab.redis.client
    lab.start_scheduler()
    lab.start_worker("a")
    lab.await_end(lab.submit([SHORT] * 5, "a"))
    until(lambda: redis.xlen(wire.RESULTS) == 0, "results stay in the stream")
    few = lasting(redis)
    lab.await_end(lab.submit([SHORT] * 100, "a"))
    until(lambda: redis.xlen(wire.RESULTS) == 0, "results stay in the stream")
    until(lambda: lasting(redis) <= few, lambda: f"{lasting(redis)} beside {few}", 30)
    own = {key for key in few if not key.startswith("_kombu.binding")}  # Celery's, two in all
    assert own == {wire.RESULTS, wire.DEVICES}
    assert len(few) <= len(own) + 2
