"""Bundles of a user reach workers through Redis; a missing or damaged bundle ends its jobs."""

from collections.abc import Callable

import pytest

from cluster import Lab
from vkbench.job import JobState, Mode, Outcome, PlannedJob
from vkbench_db.work import store
from vkbench_shaders.bundle import Bundle, BundleStore, manifest_text, packaged


def edited() -> Bundle:
    """The packaged kernels, as if of another source tree."""
    manifest = packaged().manifest
    return Bundle(
        text=manifest_text(manifest.slang, "0" * 64, manifest.entries, manifest.interfaces),
        blobs=packaged().blobs,
        name="edited",
    )


def submit(lab: Lab, bundle: str) -> int:
    job = PlannedJob(
        device=lab.key("a"), case="sleep/f32/n10", mode=Mode.CORRECTNESS, bundle=bundle
    )
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=1)
        store.add_jobs(tx, run.id, [job] * 3)
    return run.id


def test_a_worker_fetches_an_unknown_bundle_once(lab: Lab) -> None:
    bundle = edited()
    kept = store.StoredBundle(
        sha=bundle.sha, name=bundle.name, manifest=bundle.text, blobs=bundle.blobs
    )
    with lab.database.transaction() as tx:
        store.store_bundle(tx, kept, 1)
    lab.start_scheduler()
    lab.start_worker()
    run = submit(lab, bundle.sha)
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
    run = submit(lab, "ab" * 32)
    other = lab.submit(["sleep/f32/n10"])
    lab.await_end(run, other)
    lab.check(run, other)
    assert lab.counts(run) == {JobState.FAILED: 3}
    assert {row.cause for row in lab.jobs(run)} == {Outcome.ERROR}
    assert "bundle" in lab.jobs(run)[0].reason
    assert lab.counts(other) == {JobState.PASSED: 1}
