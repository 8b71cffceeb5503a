"""Bundles of a user reach workers through Redis; a missing or damaged bundle ends its jobs."""

import hashlib
from collections.abc import Callable

import pytest
from sqlalchemy import update

from cluster import Lab, until
from kept_bundles import bundle_of_tree, keep
from vkbench.job import JobState, Outcome
from vkbench.messages import wire
from vkbench_db import schema
from vkbench_shaders.bundle import Bundle, BundleStore
from vkbench_worker.service.bundles import Depot

THREE = ["sleep/f32/n10"] * 3


def check_refused(lab: Lab, sha: str, reason: str) -> None:
    """The jobs of a bundle fail for this reason, and no others."""
    run, other = lab.submit(THREE, bundle=sha), lab.submit(["sleep/f32/n10"])
    lab.await_end(run, other)
    lab.check(run, other)
    assert lab.counts(run) == {JobState.FAILED: 3}
    assert {row.cause for row in lab.jobs(run)} == {Outcome.ERROR}
    assert reason in lab.jobs(run)[0].reason
    assert lab.counts(other) == {JobState.PASSED: 1}


def test_a_worker_fetches_an_unknown_bundle_once(lab: Lab) -> None:
    bundle = bundle_of_tree()
    keep(lab, bundle)
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit(THREE, bundle=bundle.sha)
    lab.await_end(run)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 3}
    assert BundleStore(lab.settings.cache / "bundles").get(bundle.sha).sha == bundle.sha
    log = (lab.folder / "worker-a.log").read_text()
    assert log.count("bundle_fetched") == 1


@pytest.mark.parametrize("damage", [b"no zip", b""])
def test_a_missing_bundle_ends_its_jobs(make_lab: Callable[..., Lab], damage: bytes) -> None:
    lab = make_lab()
    lab.start_scheduler()
    lab.start("-m", "impatient_worker", "a", log="worker-a")
    lab.await_device("a")
    if damage:
        lab.redis.client.set(f"vk:bundle:{'ab' * 32}", damage)
    check_refused(lab, "ab" * 32, "bundle")


def test_a_bundle_that_cannot_be_stored_fails_the_jobs_that_need_it_alone(lab: Lab) -> None:
    bundle = bundle_of_tree()
    keep(lab, bundle)
    (lab.settings.cache / "bundles").parent.mkdir(parents=True, exist_ok=True)
    (lab.settings.cache / "bundles").touch()  # as a full disk is, for root too
    lab.start_scheduler()
    lab.start_worker()
    check_refused(lab, bundle.sha, "cannot be stored")


def test_a_key_of_the_wrong_type_is_not_heeded(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    lab.redis.client.rpush(wire.bundle_of("ab" * 32), "no archive")
    run, other = lab.submit(THREE, bundle="ab" * 32), lab.submit(["sleep/f32/n10"])
    lab.await_end(run, other)
    lab.check(run, other)
    assert lab.counts(run) == {JobState.FAILED: 3}
    assert "has no such bundle" in lab.jobs(run)[0].reason  # as a scheduler says
    assert lab.counts(other) == {JobState.PASSED: 1}


def test_a_chunk_that_raises_answers_each_of_its_jobs(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    lab.await_end(lab.submit(["sleep/f32/n1"]))
    locks = lab.settings.data / "locks"
    moved = locks.rename(locks.with_name("moved"))
    locks.touch()
    run = lab.submit(["sleep/f32/n1"] * 2)
    lab.await_end(run)
    lab.check(run)
    assert lab.counts(run) == {JobState.FAILED: 2}
    assert {row.cause for row in lab.jobs(run)} == {Outcome.ERROR}
    assert "File exists" in lab.jobs(run)[0].reason
    locks.unlink()
    moved.rename(locks)
    again = lab.submit(["sleep/f32/n1"])
    lab.await_end(again)
    assert lab.counts(again) == {JobState.PASSED: 1}


def test_a_damaged_bundle_of_the_database_stops_nothing_else(lab: Lab) -> None:
    good, bad = bundle_of_tree("1"), bundle_of_tree("2")
    keep(lab, good)
    keep(lab, Bundle(text=bad.text, blobs={**bad.blobs, **odd_blob()}, name="odd"))
    lone = schema.blob.c.sha == next(iter(odd_blob()))
    with lab.database.transaction() as tx:
        tx.execute(update(schema.blob).where(lone).values(data=b"no zlib"))
    for junk in (b"\xff\xfe", b"../../etc", b"0" * 1000):
        lab.redis.client.sadd(wire.WANTED, junk)
    lab.start_scheduler()
    lab.start_worker()
    runs = (
        lab.submit(THREE, bundle=bad.sha),
        lab.submit(THREE, bundle="ab" * 32),
        lab.submit(THREE, bundle=good.sha),
    )
    plain = lab.submit(["sleep/f32/n10"])
    lab.await_end(*runs, plain, seconds=15)  # a worker that waits in vain does so for 20
    lab.check(*runs, plain)
    found = [lab.counts(run) for run in (*runs, plain)]
    assert found[:2] == [{JobState.FAILED: 3}] * 2
    assert found[2:] == [{JobState.PASSED: 3}, {JobState.PASSED: 1}]
    assert "damaged" in lab.jobs(runs[0])[0].reason
    assert "has no such bundle" in lab.jobs(runs[1])[0].reason
    until(lambda: not lab.redis.client.scard(wire.WANTED), "wishes stay")


def odd_blob() -> dict[str, bytes]:
    return {hashlib.sha256(b"odd").hexdigest(): b"odd"}


def test_a_damaged_bundle_of_a_worker_is_fetched_again_once(lab: Lab) -> None:
    bundle = bundle_of_tree()
    kept = BundleStore(lab.settings.cache / "bundles")
    kept.put(bundle)
    lab.redis.client.set(wire.bundle_of(bundle.sha), bundle.archive())
    depot = Depot(lab.redis.client, lab.settings, lambda: False)

    def damage() -> None:
        path = next((kept.folder / bundle.sha).glob("*.spv"))
        path.write_bytes(path.read_bytes()[:-4])

    damage()
    depot.provide(bundle.sha)
    assert kept.get(bundle.sha).sha == bundle.sha
    damage()
    lab.redis.client.delete(wire.bundle_of(bundle.sha))
    depot.provide(bundle.sha)  # its files are not read for every job
    depot.doubt()  # a runner met the damage
    lab.redis.client.set(wire.bundle_of(bundle.sha), bundle.archive())
    depot.provide(bundle.sha)
    assert kept.get(bundle.sha).sha == bundle.sha
    assert [path.name for path in kept.folder.iterdir()] == [bundle.sha]


def test_a_host_refuses_the_bundles_that_its_policy_does_not_allow(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(bundles="packaged")
    bundle = bundle_of_tree()
    keep(lab, bundle)
    lab.start_scheduler()
    lab.start_worker()
    check_refused(lab, bundle.sha, "this host runs the packaged bundle alone")
    assert not BundleStore(lab.settings.cache / "bundles").list()  # it was never asked for
