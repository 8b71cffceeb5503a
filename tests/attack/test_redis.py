"""Attempts by who can write to Redis: none stops a loop, and none costs more than itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from redis import Redis
from redis.exceptions import ResponseError

import planted_runner
from cluster import Lab, RedisServer, until
from databases import Cluster
from kept_bundles import bundle_of_tree, keep
from listener import listening, settings_for
from vkbench.job import Job, JobState, Mode, Outcome
from vkbench.messages import wire
from vkbench.messages.keys import new_keys, read_keys
from vkbench.messages.signing import SPOKEN, Keys, seal
from vkbench.messages.stamps import Stale, Stamp, Stamps
from vkbench.messages.wire import Announcement, Chunk, Lease
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_local import diagnosis
from vkbench_scheduler.queue import border, presence
from vkbench_scheduler.queue.broker import Broker
from vkbench_scheduler.queue.collect import Collector
from vkbench_scheduler.queue.oddities import Oddities
from vkbench_scheduler.queue.presence import Presence
from vkbench_scheduler.queue.registry import Registry
from vkbench_scheduler.queue.stream import ResultStream, on_their_way
from vkbench_scheduler.queue.wishes import Wishes
from vkbench_scheduler.watch import strangers
from vkbench_worker.errors import BundleAwaited, BundleUnavailable
from vkbench_worker.service import bundles
from vkbench_worker.service.bundles import Depot
from vkbench_worker.service.chunks import jobs_of
from vkbench_worker.service.lease import Pulse

Need = Callable[[str, str], NoReturn]
Attack = Callable[["Target"], object]
OnBundle = Callable[[Redis, str], object]

HONEST = planted_runner.facts("a", Settings(host="lab"))
OTHER = planted_runner.facts("b", Settings(host="lab"))
DEEP = b'{"worker":"w","jobs":[],"more":' + b"[" * 100_000
SHA = "ab" * 32
FAR = "18446744073709551615-18446744073709551615"  # the last id of a stream
JUNK = (b"\xff\xfe", b"", b"nul \0", b"x" * 10_000, b"vk:devices", b"0" * 12 + b"\n")


class Target:
    """A scheduler's parts on a real Redis and database, beside a worker that is in order."""

    def __init__(self, redis: Redis, database: Database, keys: Keys) -> None:
        self.redis, self.database, self.keys = redis, database, keys
        self.stamps = Stamps(redis)
        self.presence = Presence(redis, keys)
        self.wishes = Wishes(redis, keys)
        self.registry = Registry(database, self.presence, self.wishes)
        self.stream = ResultStream(redis, "collector-of-the-test", keys)
        self.collector = Collector(database, self.stream)

    def work(self) -> None:
        """What an honest worker says each second."""
        self.announce(announcement())
        self.lease(Lease(worker="lab:1", jobs=()))

    def announce(self, said: Announcement, device: str = "") -> None:
        device = device or said.facts.key
        said = replace(said, stamp=self.stamps.next())
        self.redis.set(wire.announcement_of(device), wire.pack(said, self.keys, device), ex=15)
        self.redis.sadd(wire.DEVICES, device)

    def lease(self, said: Lease, device: str = HONEST.key) -> None:
        said = replace(said, stamp=self.stamps.next())
        self.redis.set(wire.lease_of(device), wire.pack(said, self.keys, device), ex=4)

    def sign(self, kind: type[object], payload: bytes, device: str) -> bytes:
        return seal(payload, wire.about(kind, device), self.keys)


def announcement(**changes: Any) -> Announcement:
    facts = replace(HONEST, **changes)
    environment = planted_runner.environment()
    return Announcement(
        worker="lab:1", facts=facts, environment=environment, bundle="b", speaks=SPOKEN
    )


def beside(**changes: Any) -> Attack:
    """A second device's announcement, signed, with these facts."""

    def attack(target: Target) -> None:
        target.announce(announcement(**{"key": OTHER.key, "uuid": OTHER.uuid} | changes))

    return attack


def of_type(key: str) -> Attack:
    """A string where something else belongs."""

    def attack(target: Target) -> None:
        target.redis.delete(key)
        target.redis.set(key, "x")

    return attack


def list_at(key: str) -> Attack:
    """A list where a word belongs."""

    def attack(target: Target) -> None:
        target.redis.delete(key)
        target.redis.rpush(key, "x")

    return attack


def members(key: str, *names: bytes) -> Attack:
    return lambda target: target.redis.sadd(key, *names)


def word_at(key: str, word: bytes) -> Attack:
    def attack(target: Target) -> None:
        target.redis.sadd(wire.DEVICES, OTHER.key)
        target.redis.set(key, word)

    return attack


def signed_at(key: str, kind: type[object], payload: bytes, device: str) -> Attack:
    return lambda target: target.redis.set(key, target.sign(kind, payload, device))


def leased(*jobs: tuple[int, int]) -> Attack:
    """The honest device's lease, signed, with numbers that no job has."""
    return lambda target: target.lease(Lease(worker="lab:1", jobs=jobs, running=True))


ON_DEVICES: dict[str, Attack] = {
    "bytes among the devices": members(wire.DEVICES, *JUNK),
    "10,000 strangers among the devices": members(
        wire.DEVICES, *(b"%012x" % number for number in range(10_000))
    ),
    "a string for the set of devices": of_type(wire.DEVICES),
    "a list for an announcement": list_at(wire.announcement_of(OTHER.key)),
    "an announcement of bytes": word_at(wire.announcement_of(OTHER.key), b"\xff\xfe"),
    "an announcement of 20 MB": word_at(wire.announcement_of(OTHER.key), b"x" * 20_000_000),
    "an announcement of a million brackets": word_at(
        wire.announcement_of(OTHER.key), b"vk2 - " + b"[" * 1_000_000
    ),
    "a signed announcement that nests": signed_at(
        wire.announcement_of(OTHER.key), Announcement, DEEP, OTHER.key
    ),
    "a host with a NUL": beside(host="a\0b"),
    "a host of 10,000 characters": beside(host="h" * 10_000),
    "a host that turns the line": beside(host="a\u202eb"),
    "a name of 100,000 characters": beside(name="n" * 100_000),
    "a memory of 2^70 bytes": beside(memory_bytes=2**70),
    "a limit of 2^70": beside(limits={"max": 2**70}),
    "a limit with a NUL": beside(limits={"a\0b": 1}),
    "5,000 features": beside(features=tuple(map(str, range(5000)))),
    "the key of another device": beside(key=HONEST.key, uuid="ff"),
    "the honest device announced as another": lambda target: target.announce(
        announcement(), OTHER.key
    ),
    "a list for a lease": list_at(wire.lease_of(OTHER.key)),
    "a lease of job 2^70": leased((2**70, 1)),
    "a lease of token 2^70": leased((1, 2**70)),
    "a lease of job 0": leased((0, 0)),
    "a lease of job -1": leased((-1, 1)),
    "a lease of 5,000 jobs": leased(*((number, 1) for number in range(1, 5001))),
    "a signed lease that nests": signed_at(wire.lease_of(HONEST.key), Lease, DEEP, HONEST.key),
    "bytes among the wishes": members(wire.WANTED, *JUNK),
    "a signed wish that is no hash": lambda target: target.redis.sadd(
        wire.WANTED, seal(b"../../etc", wire.WISH, target.keys)
    ),
    "a string for the set of wishes": of_type(wire.WANTED),
    "a list for a bundle's refusal": list_at(wire.refusal_of(SHA)),
    "a list for the unfit devices": list_at(wire.UNFIT),
}


@pytest.fixture(scope="module")
def server(need: Need, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of this module's own."""
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    server = RedisServer(tmp_path_factory.mktemp("redis"), appendonly=False)
    server.start()
    yield server
    server.close()


@pytest.fixture
def target(server: RedisServer, database: Database, tmp_path: Path) -> Target:
    """A scheduler that knows one device, whose worker is in order."""
    server.client.flushall()
    new_keys(tmp_path / "keys")
    target = Target(server.client, database, read_keys(Settings(keys=str(tmp_path / "keys"))))
    target.work()
    assert target.registry.look() == [HONEST.key]
    return target


@pytest.mark.parametrize("name", ON_DEVICES)
def test_the_scheduler_goes_on_with(target: Target, name: str) -> None:
    ON_DEVICES[name](target)
    target.registry.look()  # a lease that was spoilt is one that is not there
    target.work()
    assert target.registry.look() == [HONEST.key]
    assert target.presence.taking([HONEST.key]) == [HONEST.key]
    began = time.monotonic()
    target.registry.look()
    assert time.monotonic() - began < 1  # what is no message is gone, and is not read again


def test_a_device_that_the_database_refuses_stops_no_other(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The border lets through what no one thought of: that device alone is not registered."""
    monkeypatch.setattr("vkbench.bounds.complaints", lambda record: iter(()))
    monkeypatch.setattr("vkbench.messages.wire.complaints", lambda record: iter(()), raising=False)
    bad = replace(OTHER, name="a" * 10 + "\ud800")
    target.presence.announcements = lambda: [  # type: ignore[method-assign]
        replace(announcement(), facts=bad),
        announcement(name="renamed"),
    ]
    assert target.registry.look() == [HONEST.key]
    assert "cannot be stored" in target.presence.unfit[OTHER.key]


ON_RESULTS: dict[str, Attack] = {
    "a string for the stream": of_type(wire.RESULTS),
    "bytes in the stream": lambda target: target.redis.xadd(wire.RESULTS, {b"\xff": b"\xfe"}),
    "a result that nests": lambda target: target.redis.xadd(
        wire.RESULTS, {wire.RESULT_FIELD: target.sign(Result, DEEP, "")}
    ),
    "a result of job 2^70": lambda target: target.redis.xadd(
        wire.RESULTS, {wire.RESULT_FIELD: signed_result(target, 2**70)}
    ),
    "a consumer whose name is bytes": lambda target: target.redis.xgroup_createconsumer(
        wire.RESULTS, wire.RESULTS_GROUP, b"\xff\xfe"
    ),
    "a group that is gone": lambda target: target.redis.xgroup_destroy(
        wire.RESULTS, wire.RESULTS_GROUP
    ),
    "a stream at its last id": lambda target: target.redis.xadd(wire.RESULTS, {"x": "y"}, id=FAR),
    "a stream at its last id, and empty": lambda target: target.redis.xdel(
        wire.RESULTS, target.redis.xadd(wire.RESULTS, {"x": "y"}, id=FAR)
    ),
}


def signed_result(target: Target, job: int) -> bytes:
    return wire.pack(Result(job=job, token=1, outcome=Outcome.PASSED), target.keys)


@pytest.mark.parametrize("name", ON_RESULTS)
def test_the_collector_goes_on_with(
    target: Target, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkbench_scheduler.queue.stream.BLOCK_MILLISECONDS", 20)
    monkeypatch.setattr("vkbench_scheduler.queue.stream._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("vkbench_scheduler.queue.stream.ABANDONED_SECONDS", 0)
    target.collector.turn()
    ON_RESULTS[name](target)
    for _ in range(3):
        target.collector.turn()
        on_their_way(target.redis, target.keys)
    target.redis.xadd(wire.RESULTS, {wire.RESULT_FIELD: signed_result(target, 7)})
    assert on_their_way(target.redis, target.keys) == {(7, 1)}
    assert target.collector.turn() == 1


def test_a_queue_of_another_type_stops_no_device(target: Target, server: RedisServer) -> None:
    broker = Broker(server.url, target.redis, target.keys)
    queues = [wire.queue_of(device) for device in (HONEST.key, OTHER.key)]
    chunks = [chunk(device) for device in (OTHER.key, HONEST.key)]
    target.redis.set(queues[1], "x")
    assert broker.list_queued(OTHER.key) == set()
    target.redis.set(queues[1], "x")
    broker.publish(chunks)
    assert [broker.list_queued(each.device) for each in chunks] == [{(1, 1)}, {(1, 1)}]
    for junk in (*JUNK, b"[" * 100_000, json.dumps({"body": "W1tb"}).encode()):
        target.redis.lpush(queues[0], junk)
    assert broker.list_queued(HONEST.key) == {(1, 1)}
    broker.close()


def chunk(device: str, case: str = "sleep/f32/n1") -> Chunk:
    return Chunk(device=device, jobs=(Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS),))


@contextmanager
def made_lab(need: Need, folder: Path, url: str) -> Iterator[Lab]:
    """A lab with keys."""
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    new_keys(folder / "keys")
    redis = RedisServer(folder / "redis")
    redis.start()
    made = Lab(
        folder=folder,
        database_url=url,
        redis=redis,
        changes={"keys": str(folder / "keys")},
    )
    try:
        yield made
    finally:
        made.close()
        redis.close()


@pytest.fixture(scope="module")
def lab(
    need: Need, cluster: Cluster, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A scheduler and a worker at work; what one attack leaves, the next one meets."""
    folder = tmp_path_factory.mktemp("lab")
    with made_lab(need, folder, cluster.url(cluster.create(template))) as lab:
        lab.start_scheduler()
        lab.start_fleet("a")
        yield lab


def pushed(*items: bytes) -> Callable[[Lab], None]:
    """Items at both ends of the device's queue."""

    def attack(lab: Lab) -> None:
        for item in items:
            lab.redis.client.lpush(wire.queue_of(lab.key("a")), item)
            lab.redis.client.rpush(wire.queue_of(lab.key("a")), item)

    return attack


def set_at(name: str) -> Callable[[Lab], None]:
    """A string where something else belongs."""

    def attack(lab: Lab) -> None:
        key = name.format(device=lab.key("a"))
        lab.redis.client.delete(key)
        lab.redis.client.set(key, "x")

    return attack


def hash_at(name: str) -> Callable[[Lab], None]:
    """A hash where a word belongs."""

    def attack(lab: Lab) -> None:
        key = name.format(device=lab.key("a"))
        lab.redis.client.delete(key)
        lab.redis.client.hset(key, "x", "y")

    return attack


def unacknowledged(lab: Lab) -> None:
    """Bytes among the messages that Celery would deliver again."""
    key = f"unacked:{lab.key('a')}"
    lab.redis.client.hset(key, "tag", b"\xff\xfe")
    lab.redis.client.zadd(f"{key}:index", {"tag": 1})


def message(**changes: object) -> bytes:
    """A message as Celery writes them, but for what is changed."""
    properties = {"delivery_tag": "t", "delivery_info": {}, "body_encoding": "base64"}
    whole: dict[str, object] = {
        "body": "W1siIl0sIHt9LCB7fV0=",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"task": wire.CHUNK_TASK, "id": "1"},
        "properties": properties,
    }
    return json.dumps(whole | changes).encode()


ON_WORKERS: dict[str, Callable[[Lab], None]] = {
    "bytes in the queue": pushed(*JUNK),
    "JSON that is no message": pushed(b"[]", b"{}", b"7", b"null", b'"x"', b"[" * 100_000),
    "messages without their parts": pushed(
        message(properties={}), message(properties=None), message(body=7), message(headers=None)
    ),
    "a task that there is not": pushed(message(headers={"task": "os.system", "id": "1"})),
    "a pickle": pushed(message(**{"content-type": "application/x-python-serialize"})),
    "a string for the queue": set_at("vk:queue:{device}"),
    "a string for the queue of a priority": set_at("vk:queue:{device}\x06\x163"),
    "a string for what is unacknowledged": set_at("unacked:{device}"),
    "a string for its index": set_at("unacked:{device}:index"),
    "a hash for its lock": hash_at("unacked:{device}:mutex"),
    "bytes in what is unacknowledged": unacknowledged,
    "a hash for a recall": hash_at("vk:recall:{device}"),
    "a hash for the lease": hash_at("vk:lease:{device}"),
    "a string for the set of devices": set_at("vk:devices"),
    "a string for the stream of results": set_at("vk:results"),
}


@pytest.mark.parametrize("name", ON_WORKERS)
def test_a_worker_goes_on_with(lab: Lab, name: str) -> None:
    fallen = log_of(lab, "fleet").count("worker_fell")
    ON_WORKERS[name](lab)
    run = lab.submit(["sleep/f32/n1"] * 3)
    lab.await_end(run, seconds=20)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 3}
    assert log_of(lab, "fleet").count("worker_fell") == fallen


def test_a_hash_for_a_cancellation_stops_no_run(lab: Lab) -> None:
    first = lab.submit(["sleep/f32/n1"])
    lab.await_end(first)
    lab.redis.client.hset(wire.cancel_of(first + 1), "x", "y")
    run = lab.submit(["sleep/f32/n1"] * 3)
    assert run == first + 1
    lab.await_end(run, seconds=20)
    assert lab.counts(run) == {JobState.PASSED: 3}
    assert {row.dispatches for row in lab.jobs(run)} == {1}


def test_a_worker_that_cannot_read_its_recall_says_that_it_is_well(lab: Lab) -> None:
    """The lease is renewed, so a service manager does not restart the worker for it."""
    sign = lab.settings.data / "alive" / "worker" / lab.key("a")
    until(sign.exists, "there is no sign of life")
    lab.redis.client.hset(wire.recall_of(lab.key("a")), "x", "y")
    time.sleep(1.5)
    before = sign.stat().st_mtime
    until(lambda: sign.stat().st_mtime > before, "it gives no sign of life", 5)
    lab.redis.client.delete(wire.recall_of(lab.key("a")))


@pytest.fixture(scope="module")
def bundle_lab(
    need: Need, cluster: Cluster, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A scheduler and an impatient worker."""
    folder = tmp_path_factory.mktemp("bundles")
    with made_lab(need, folder, cluster.url(cluster.create(template))) as lab:
        lab.start_scheduler()
        lab.start("-m", "impatient_worker", "a", log="worker-a")
        lab.await_device("a")
        yield lab


def put(key: str, word: bytes) -> OnBundle:
    return lambda redis, sha: redis.set(key.format(sha), word)


def put_list(key: str) -> OnBundle:
    def attack(redis: Redis, sha: str) -> None:
        redis.delete(wire.bundle_of(sha), key.format(sha))
        redis.rpush(key.format(sha), "x")

    return attack


def refuse(word: Callable[[str], bytes]) -> OnBundle:
    """A refusal, and the bundle that the scheduler brought is gone."""

    def attack(redis: Redis, sha: str) -> None:
        redis.set(wire.refusal_of(sha), word(sha))
        redis.delete(wire.bundle_of(sha))

    return attack


OTHERS_KEYS = Keys(scheduler=(b"x" * 32,), worker=(b"x" * 32,))
ON_BUNDLES: dict[str, OnBundle] = {
    "junk for a bundle": put("vk:bundle:{}", b"PK no zip"),
    "another bundle in its place": put("vk:bundle:{}", bundle_of_tree("other").archive()),
    "a list for a bundle": put_list("vk:bundle:{}"),
    "an unsigned refusal": refuse(lambda sha: b"vk2 - it is forbidden"),
    "a refusal by other keys": refuse(
        lambda sha: seal(b"no", wire.refusal_subject(sha), OTHERS_KEYS)
    ),
    "a list for a refusal": put_list("vk:bundle:{}:refused"),
    "wishes that are deleted": lambda redis, sha: redis.delete(wire.WANTED, wire.bundle_of(sha)),
}


@pytest.mark.parametrize("name", ON_BUNDLES)
def test_no_job_fails_for(bundle_lab: Lab, name: str) -> None:
    """It waits with a reason as long as the attack goes on, and then is done by itself."""
    lab, sha = bundle_lab, keep(bundle_lab, bundle_of_tree(name))
    with repeated(lambda: ON_BUNDLES[name](lab.redis.client, sha)):
        run = lab.submit(["sleep/f32/n10"] * 2, bundle=sha)
        until(lambda: "is awaited" in waiting(lab), lambda: waiting(lab), 20)
        other = lab.submit(["sleep/f32/n1"])
        lab.await_end(other)
        assert lab.ended(run) == 0
        until(lambda: "is awaited" in lab.jobs(run)[0].reason, "no reason is kept")
        until(lambda: f"bundle={sha}" in log_of(lab, "scheduler"), "the log says nothing")
        assert sha[:12] in status(lab)
    lab.redis.client.delete(wire.refusal_of(sha), wire.bundle_of(sha))
    lab.await_end(run)
    assert lab.counts(run) == {JobState.PASSED: 2}
    assert {row.tries for row in lab.jobs(run)} == {0}


def waiting(lab: Lab) -> str:
    """Why the jobs of the device wait, as `vkbench status` says."""
    return str(json.loads(asked_status(lab))["rows"][0]["why"])


@contextmanager
def repeated(attack: Callable[[], object]) -> Iterator[None]:
    """Make an attack again and again, faster than anybody reads."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            with suppress(ResponseError):  # the scheduler was between two commands of ours
                attack()
            stop.wait(0.005)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


AN_HOUR_AGO, IN_AN_HOUR = -3600.0, 3600.0


@pytest.mark.parametrize("age", [AN_HOUR_AGO, IN_AN_HOUR, None])
def test_an_announcement_or_a_lease_is_not_of_now(target: Target, age: float | None) -> None:
    now = target.stamps.next()
    stamp = Stamp() if age is None else Stamp(sent=now.sent + age, number=now.number)
    device, keys = HONEST.key, target.keys
    lease = Lease(worker="lab:1", jobs=(), stamp=stamp)
    target.redis.set(wire.lease_of(device), wire.pack(lease, keys, device))
    assert target.presence.leases([device]) == {}
    target.lease(replace(lease, jobs=((1, 1),)))
    assert target.presence.taking([device]) == [device]
    said = replace(announcement(), stamp=stamp)
    target.redis.set(wire.announcement_of(device), wire.pack(said, keys, device))
    assert target.registry.look() == []
    assert "it was sent" in target.presence.unfit[device] or age is None
    target.work()
    assert target.registry.look() == [device]


def test_an_older_word_is_put_back(target: Target) -> None:
    device, redis = HONEST.key, target.redis
    keys = (wire.lease_of(device), wire.announcement_of(device))
    recorded = [redis.get(key) for key in keys]
    target.work()
    assert target.registry.look() == [device]
    for key, word in zip(keys, recorded, strict=True):
        redis.set(key, word or b"")
    assert target.registry.look() == []
    assert target.presence.leases([device]) == {}


def test_the_words_of_a_worker_that_is_gone_are_put_back(target: Target) -> None:
    device, redis = HONEST.key, target.redis
    keys = (wire.lease_of(device), wire.announcement_of(device))
    recorded = [redis.get(key) for key in keys]
    redis.delete(*keys)
    assert target.registry.look() == []
    for key, word in zip(keys, recorded, strict=True):
        redis.set(key, word or b"")
    redis.sadd(wire.DEVICES, device)
    assert target.registry.look() == []
    assert target.presence.leases([device]) == {}
    target.work()  # a worker that was started again
    assert target.registry.look() == [device]


def test_a_wish_is_answered_once(target: Target) -> None:
    wish = wire.say(wire.WISH, target.stamps.next(), target.keys, SHA)
    target.redis.sadd(wire.WANTED, wish)
    assert target.wishes.list_wanted_bundles() == [SHA]
    target.wishes.refuse(SHA, "the test says so")
    target.redis.sadd(wire.WANTED, wish)
    assert target.wishes.list_wanted_bundles() == []
    old = Stamp(sent=time.time() - 3600, number=1)
    target.redis.sadd(wire.WANTED, wire.say(wire.WISH, old, target.keys, "cd" * 32))
    assert target.wishes.list_wanted_bundles() == []
    assert target.redis.scard(wire.WANTED) == 0
    target.redis.sadd(wire.WANTED, wire.say(wire.WISH, target.stamps.next(), target.keys, SHA))
    assert target.wishes.list_wanted_bundles() == [SHA]


def test_wishes_of_several_workers_are_all_heard(target: Target) -> None:
    wishes = [wire.say(wire.WISH, target.stamps.next(), target.keys, SHA) for _ in range(5)]
    target.redis.sadd(wire.WANTED, *wishes)
    assert target.wishes.list_wanted_bundles() == [SHA]
    assert target.redis.scard(wire.WANTED) == 5
    target.wishes.refuse(SHA, "the test says so")
    assert target.redis.scard(wire.WANTED) == 0


def test_a_recall_is_put_back_once_it_is_over(target: Target) -> None:
    device, redis = HONEST.key, target.redis
    pulse = Pulse(redis, announcement(), keys=target.keys)
    target.presence.recall([device])
    recorded = redis.get(wire.recall_of(device)) or b""
    pulse._beat()
    assert pulse.recalled
    target.presence.end_recall([device])
    pulse._beat()
    assert not pulse.recalled
    now = target.stamps.next()
    subject = wire.recall_subject(device)
    old = wire.say(subject, replace(now, sent=now.sent - 3600), target.keys)
    for word in (recorded, old, seal(b"1", subject, target.keys)):
        redis.set(wire.recall_of(device), word)
        pulse._beat()
        assert not pulse.recalled
    target.presence.recall([device])
    pulse._beat()
    assert pulse.recalled


def test_an_old_refusal_fails_no_job(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "PATIENCE_SECONDS", 0.3)
    depot = Depot(target.redis, Settings(cache=tmp_path), lambda: False, target.keys)
    now, subject = target.stamps.next(), wire.refusal_subject(SHA)
    old = wire.say(subject, replace(now, sent=now.sent - 3600), target.keys, "there is none")
    for word in (old, seal(b"there is none", subject, target.keys)):
        target.redis.set(wire.refusal_of(SHA), word)
        with pytest.raises(BundleAwaited):
            depot.provide(SHA)
        depot._not_before.clear()
    target.wishes.refuse(SHA, "there is none")
    with pytest.raises(BundleUnavailable, match="there is none"):
        depot.provide(SHA)


@pytest.mark.parametrize("sent", [0, 1, 2**40])
@pytest.mark.parametrize("is_readable", [True, False])
def test_a_chunk_is_not_of_now(target: Target, sent: int, is_readable: bool) -> None:
    payload = wire.encode(replace(chunk(HONEST.key), sent=sent))
    if not is_readable:
        payload = payload.replace(b"correctness", b"telepathy")
    word = target.sign(Chunk, payload, HONEST.key).decode()
    with pytest.raises(Stale):
        jobs_of(word, HONEST.key, target.keys, target.redis)


def test_clocks_of_hosts_may_be_wrong(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """All go by the clock of Redis."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600)
    target.work()
    assert target.registry.look() == [HONEST.key]
    monkeypatch.setattr(time, "time", lambda: right() - 3600)
    assert target.presence.taking([HONEST.key]) == [HONEST.key]


def test_the_doctor_tells_of_a_wrong_clock(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, right = Settings(redis=server.url), time.time
    [found] = diagnosis.clock(ours)
    assert (found.ok, found.detail) == (True, "that of Redis")
    monkeypatch.setattr(time, "time", lambda: right() + 43)
    [found] = diagnosis.clock(ours)
    assert (found.ok, found.detail) == (False, "about 45 s ahead of that of Redis")
    assert list(diagnosis.clock(Settings(redis="redis://127.0.0.1:1/0"))) == []


def test_a_wrong_clock_is_told_of(lab: Lab) -> None:
    """A host's clock dates its results, so people should know that it is wrong."""
    ours = {"PLANTED_CLOCK": str(lab.folder / "offset")}
    (lab.folder / "offset").write_text("-600")
    worker = lab.start("-m", "misdating_worker", "b", log="worker-b", **ours)
    lab.await_device("b")
    until(lambda: "clock_wrong" in log_of(lab, "scheduler"), "the log says nothing")
    services = json.loads(asked_status(lab))["summary"]["services"]
    [workers] = [each["detail"] for each in services if each["service"] == "workers"]
    assert "the clock of lab is about 600 s behind that of Redis" in workers
    run = lab.submit(["sleep/f32/n1"] * 3, "b")
    lab.await_end(run)
    assert lab.counts(run) == {JobState.PASSED: 3}
    worker.terminate()
    worker.wait()


def test_an_operator_is_told_of_strange_keys(lab: Lab) -> None:
    lab.redis.client.sadd(wire.DEVICES, b"\xff\xfe")
    until(lambda: "strange member" in status(lab), lambda: status(lab), 15)
    assert "redis_strange key=vk:devices" in log_of(lab, "scheduler")


def status(lab: Lab) -> str:
    """What `vkbench status` says of messages."""
    services = json.loads(asked_status(lab))["summary"]["services"]
    return next((each["detail"] for each in services if each["service"] == "messages"), "")


def asked_status(lab: Lab) -> str:
    words = [str(Path(sys.executable).with_name("vkbench")), "status", "--json"]
    done = subprocess.run(words, env=lab.environ(), capture_output=True, text=True, check=False)
    return done.stdout


def test_the_alert_channels_hear_of_a_strange_key_once(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    oddities = Oddities()
    for module in (border, presence, strangers):
        monkeypatch.setattr(module, "ODDITIES", oddities)
    with listening() as listener:
        ours = settings_for(listener)
        for _ in range(2):
            ON_DEVICES["bytes among the devices"](target)
            target.registry.look()
            strangers.step(target.database, ours, time.time())
    [(_, heard)] = listener.heard
    assert b"redis.strange" in heard
    assert b"vk:devices" in heard


def log_of(lab: Lab, name: str) -> str:
    return (lab.folder / f"{name}.log").read_text()
