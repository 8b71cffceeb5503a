"""Who can write to Redis and has no key gets nothing run and no result believed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from cluster import Lab, until
from host_keys import HostKeys
from listener import listening, settings_for
from vkbench.job import Job, JobState, Mode, Outcome
from vkbench.messages import wire
from vkbench.messages.keys import new_keys, read_keys
from vkbench.messages.signing import NO_KEYS, Keys, seal
from vkbench.messages.wire import Announcement, Chunk, Lease, Unfit
from vkbench.result import Result
from vkbench_scheduler.queue import presence
from vkbench_scheduler.queue.broker import Broker
from vkbench_scheduler.queue.oddities import Oddities
from vkbench_scheduler.queue.presence import Presence
from vkbench_scheduler.watch import strangers

MakeLab = Callable[..., Lab]

SHORT = "sleep/f32/n10"


@pytest.fixture
def signed(make_lab: MakeLab, tmp_path: Path) -> Lab:
    """A lab whose processes have keys."""
    new_keys(tmp_path / "keys")
    return make_lab(keys=str(tmp_path / "keys"))


def unfit(lab: Lab) -> str:
    """Why device a is sent nothing; "" if it is."""
    word = lab.redis.client.get(wire.UNFIT)
    keys = read_keys(lab.settings)
    return wire.unpack(word, Unfit, keys).devices.get(lab.key("a"), "") if word else ""


def chunk(lab: Lab, job: int = 1, case: str = SHORT) -> Chunk:
    planted = Job(id=job, token=1, case=case, mode=Mode.CORRECTNESS)
    return Chunk(device=lab.key("a"), jobs=(planted,))


def send(lab: Lab, chunk: Chunk, keys: Keys) -> None:
    Broker(lab.settings.redis, lab.redis.client, keys).publish([chunk])


def logged(lab: Lab, name: str) -> str:
    return (lab.folder / f"{name}.log").read_text()


def test_signed_jobs_run_and_their_messages_help_nobody(signed: Lab) -> None:
    signed.start_scheduler()
    signed.start_worker()
    run = signed.submit(["sleep/f32/n100"] * 10)
    signed.await_start()
    redis = signed.redis.client
    [taken, *_] = redis.hvals(f"unacked:{signed.key('a')}")
    signed.await_end(run)
    assert unfit(signed) == ""

    message = json.dumps(json.loads(taken)[0])
    [again] = json.loads(base64.b64decode(json.loads(message)["body"]))[0]
    assert again.startswith("vk2 ")
    queue = wire.queue_of(signed.key("a"))
    redis.rpush(queue, message)  # a replay
    until(lambda: not redis.llen(queue), "the replay stays")
    redis.flushdb()  # the claims too
    redis.rpush(queue, message)
    until(lambda: len(signed.events("start")) > 10, "it is run again, without its claims")
    time.sleep(0.5)
    signed_jobs = {row.id: row.settled_token for row in signed.jobs(run)}
    assert set(signed_jobs.values()) == {1}  # and changes nothing
    assert signed.counts(run) == {JobState.PASSED: 10}


@pytest.mark.parametrize("how", ["unsigned", "other keys", "for another device", "as of version 1"])
def test_a_forged_chunk_is_not_run(signed: Lab, tmp_path: Path, how: str) -> None:
    signed.start_scheduler()
    signed.start_worker()
    ours, forged = read_keys(signed.settings), chunk(signed)
    redis = signed.redis.client
    if how == "unsigned":
        send(signed, forged, NO_KEYS)
    elif how == "other keys":
        new_keys(tmp_path / "others")
        send(signed, forged, read_keys(replace(signed.settings, keys=str(tmp_path / "others"))))
    elif how == "as of version 1":
        broker = Broker(signed.settings.redis, redis)
        broker.protocols = {forged.device: 1}
        broker.publish([forged])
    else:
        send(signed, replace(forged, device="b"), ours)
        redis.rename(wire.queue_of("b"), wire.queue_of(forged.device))
    until(lambda: unfit(signed).startswith("its worker refuses jobs: "), "nothing is said")
    assert "message_refused" in logged(signed, "worker-a")
    assert not signed.events("start")


def test_a_forged_result_is_not_believed(signed: Lab) -> None:
    signed.start_scheduler()
    signed.start_worker()
    run = signed.submit(["sleep/f32/n1500"])
    signed.await_start()
    [job] = signed.jobs(run)
    result = Result(job=job.id, token=job.token, outcome=Outcome.WRONG, reason="forged")
    redis = signed.redis.client
    worker_alone = Keys(worker=(b"x" * 32,), scheduler=(b"x" * 32,))
    forged_by_scheduler = seal(
        wire.encode(result),
        wire.about(Result, ""),
        replace(worker_alone, worker=read_keys(signed.settings).scheduler),
    )
    for word in (wire.pack(result, NO_KEYS), wire.encode(result), forged_by_scheduler):
        redis.xadd(wire.RESULTS, {wire.RESULT_FIELD: word})
    redis.sadd(wire.WANTED, "ab" * 32)
    signed.await_end(run)
    until(lambda: not redis.scard(wire.WANTED), "an unsigned wish stays")
    signed.check(run)
    assert signed.counts(run) == {JobState.PASSED: 1}
    assert logged(signed, "scheduler").count("result_refused") == 3
    assert "wish_refused" in logged(signed, "scheduler")


def test_words_of_a_worker_without_the_keys_are_not_believed(signed: Lab) -> None:
    redis, presence = signed.redis.client, Presence(signed.redis.client, read_keys(signed.settings))
    device = signed.key("a")
    lease = Lease(worker="x", jobs=((1, 1),))
    redis.sadd(wire.DEVICES, device)
    redis.set(wire.announcement_of(device), seal(b"{}", wire.about(Announcement, device), NO_KEYS))
    redis.set(wire.lease_of(device), wire.pack(lease, NO_KEYS, device))
    assert presence.announcements() == []
    assert presence.leases([device]) == {}
    assert "not signed" in presence.unfit[device]


def test_a_forged_cancel_stops_nothing(signed: Lab) -> None:
    signed.start_scheduler()
    signed.start_worker()
    signed.redis.client.set(wire.cancel_of(1), 1)
    run = signed.submit([SHORT] * 3)
    assert run == 1
    signed.await_end(run)
    assert signed.counts(run) == {JobState.PASSED: 3}
    assert {row.dispatches for row in signed.jobs(run)} == {1}


def test_jobs_wait_for_a_worker_that_has_other_keys_and_then_run(
    signed: Lab, tmp_path: Path
) -> None:
    signed.start_scheduler()
    worker = signed.start_worker()
    run = signed.submit([SHORT] * 3)
    signed.await_end(run)
    worker.terminate()
    worker.wait()
    new_keys(tmp_path / "others")
    stranger = signed.start(
        "-m", "vkbench_worker.service.main", "a", log="s", VKBENCH_KEYS=str(tmp_path / "others")
    )
    until(lambda: "its sender has other keys" in unfit(signed), "nothing is said", 20)
    second = signed.submit([SHORT] * 3)
    assert "its sender has other keys" in said_by("status", signed)["why"]
    device = said_by("devices", signed)
    assert device["state"] == "unfit"
    assert "its sender has other keys" in device["unfit"]
    time.sleep(2.5)
    assert {row.dispatches for row in signed.jobs(second)} == {0}
    stranger.terminate()
    stranger.wait()
    signed.start_worker()
    signed.await_end(second)
    signed.check(run, second)


def test_a_worker_that_gets_the_new_key_late_waits_and_people_are_told(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = HostKeys(tmp_path / "keys", ("scheduler", "worker"))
    signed = make_lab(keys=str(keys.of("scheduler")))
    scheduler = signed.start_scheduler()
    worker = start_worker_with(keys.of("worker"), signed)
    signed.await_device("a")
    for _ in range(2):
        keys.take_step()
    keys.copy_to("scheduler")  # which signs with the new key from now on
    scheduler.terminate()
    scheduler.wait()
    signed.start_scheduler()
    run = signed.submit([SHORT] * 3)
    until(lambda: "it lacks the key" in unfit(signed), "no reason is given", 30)
    assert "copy the keys to its host" in said_by("status", signed)["why"]
    assert tell(signed, monkeypatch)["type"] == "keys.differ"
    time.sleep(1)
    assert {row.dispatches for row in signed.jobs(run)} == {0}
    assert "message_refused" not in logged(signed, "worker-a")
    keys.copy_to("worker")
    worker.terminate()
    worker.wait()
    start_worker_with(keys.of("worker"), signed)
    signed.await_end(run)
    signed.check(run)
    assert dict(signed.counts(run)) == {JobState.PASSED: 3}
    assert {row.dispatches for row in signed.jobs(run)} == {1}


def start_worker_with(keys: Path, lab: Lab) -> subprocess.Popen[bytes]:
    module = "vkbench_worker.service.main"
    return lab.start("-m", module, "a", log="worker-a", VKBENCH_KEYS=str(keys))


def tell(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the alert channels hear, once, of a state that does not end."""
    oddities = Oddities("keys_differ")
    monkeypatch.setattr(presence, "OTHER_KEYS", oddities)
    monkeypatch.setattr(strangers, "OTHER_KEYS", oddities)
    seen = Presence(lab.redis.client, read_keys(lab.settings))
    seen.announcements()
    assert not oddities.list_untold()  # it may end by itself
    monkeypatch.setattr(presence, "UNTRUSTED_SECONDS", 0.0)
    with listening() as listener:
        for _ in range(2):
            seen.announcements()
            strangers.step(lab.database, settings_for(listener), time.time())
    [(_, heard)] = listener.heard
    message: dict[str, object] = json.loads(heard)
    assert lab.key("a") in str(message["data"])
    return message


def said_by(command: str, lab: Lab) -> dict[str, str]:
    """What a command says of the one device."""
    words = [str(Path(sys.executable).with_name("vkbench")), command, "--json"]
    done = subprocess.run(words, env=lab.environ(), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    [device] = json.loads(done.stdout)["rows"]
    return cast(dict[str, str], device)


def test_a_chunk_that_cannot_be_read_is_answered(signed: Lab) -> None:
    signed.start("-m", "vkbench_worker.service.main", "a", log="worker-a")
    sent = replace(chunk(signed, 77), sent=int(time.time()))
    payload = wire.encode(sent).replace(b"correctness", b"telepathy")
    keys, redis = read_keys(signed.settings), signed.redis.client
    word = seal(payload, wire.about(Chunk, signed.key("a")), keys)
    publish_word(signed, word.decode())
    until(lambda: redis.xlen(wire.RESULTS), "it is not answered", 20)
    [(_, fields)] = redis.xrange(wire.RESULTS) or []
    assert fields
    answer = wire.unpack(fields[wire.RESULT_FIELD.encode()], Result, keys)
    assert (answer.job, answer.token, answer.outcome) == (77, 1, Outcome.ERROR)
    assert "this worker cannot read the job: malformed Chunk: " in answer.reason
    assert "telepathy" in answer.reason


def publish_word(lab: Lab, word: str) -> None:
    """Send a message that the broker itself would not send."""
    broker = Broker(lab.settings.redis, lab.redis.client)
    vars(broker)["_message"] = lambda chunk: word
    broker.publish([chunk(lab)])


def test_workers_of_an_older_version_share_the_work(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start("-m", "versioned_worker", "b", log="worker-b", VKBENCH_REQUIRE="1")
    lab.start_worker("a")
    lab.await_device("b")
    runs = [lab.submit([SHORT] * 20, device) for device in "ab"]
    lab.await_end(*runs)
    lab.check(*runs)
    assert [lab.counts(run) for run in runs] == [{JobState.PASSED: 20}] * 2


def test_a_worker_of_a_newer_version_waits_and_holds_up_nobody(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start("-m", "versioned_worker", "b", log="worker-b", VKBENCH_REQUIRE="3,4")
    lab.start_worker("a")
    until(lambda: "it speaks protocol 4, this host 1 or 2" in said_of(lab, "b"), "b is used", 20)
    run = lab.submit([SHORT] * 3)
    lab.await_end(run)
    lab.check(run)
    assert lab.device_row("b") is None


def said_of(lab: Lab, name: str) -> str:
    word = lab.redis.client.get(wire.UNFIT)
    return wire.unpack(word, Unfit, NO_KEYS).devices.get(lab.key(name), "") if word else ""


def test_a_worker_without_a_common_protocol_gets_nothing(signed: Lab) -> None:
    """Only signed messages are read where there are keys, and protocol 1 has none."""
    signed.start_scheduler()
    signed.start("-m", "versioned_worker", "a", log="a", VKBENCH_REQUIRE="1")
    until(lambda: "not signed" in unfit(signed), "nothing is said", 20)
    assert signed.device_row("a") is None
    device = said_by("devices", signed)
    assert (device["key"], device["state"]) == (signed.key("a"), "unfit")
    assert "not signed" in device["unfit"]


def test_redis_tells_how_old_a_chunk_is(signed: Lab) -> None:
    signed.start("-m", "vkbench_worker.service.main", "a", log="worker-a")
    old = replace(chunk(signed), sent=int(time.time()) - 86_400)
    publish_word(signed, wire.pack(old, read_keys(signed.settings), old.device).decode())
    until(lambda: "message_stale" in logged(signed, "worker-a"), "an old chunk is taken", 20)
    assert not signed.events("start")
