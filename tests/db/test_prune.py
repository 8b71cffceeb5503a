"""Old samples and unused bundles go; summaries and what is needed stay."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, select, update

from databases import ENVIRONMENT, NOW, Lab
from planted_runs import planted_regression
from vkbench.device import Environment
from vkbench.job import Arm, ArmKind, Pair
from vkbench_cli.main import main
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.ask.results import results
from vkbench_db.database import Database
from vkbench_db.upkeep import prune, schedules
from vkbench_db.work import store
from vkbench_db.work.devices import store_environment

__all__ = ["planted_regression"]

DAY = 86400.0


def sampled(database: Database) -> dict[int, int]:
    """Bytes of samples by run."""
    job, timing = schema.job.c, schema.measurement.c
    with database.reading() as tx:
        rows = tx.execute(
            select(job.run_id, func.sum(func.length(timing.samples)))
            .join(schema.job, job.id == timing.job_id)
            .group_by(job.run_id)
        )
        return {row[0]: row[1] for row in rows}


def pin(database: Database, kind: str, value: str, name: str = "") -> None:
    row = {"name": name or kind, "kind": kind, "value": value, "created_at": NOW}
    with database.transaction() as tx:
        tx.execute(insert(schema.baseline), [row | {"user_name": "ann"}])


@pytest.fixture
def runs(lab: Lab) -> list[int]:
    """Three runs: an old one, one of a baseline, and a new one."""
    device = lab.add_device()
    made = []
    for now in (NOW - 200 * DAY, NOW - 200 * DAY, NOW):
        lab.now = now
        made.append(lab.submit(device, 3))
        lab.settle(device)
    with lab.database.reading() as tx:
        uuid = tx.execute(select(schema.run.c.uuid).where(schema.run.c.id == made[1])).scalar_one()
    pin(lab.database, "run", uuid)
    return made


def test_old_samples_go_and_summaries_stay(
    lab: Lab, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "STEP_JOBS", 2)
    before = sampled(lab.database)
    with lab.database.reading() as tx:
        kept = results(tx, limit=None)
    said = prune.prune_samples(lab.database, NOW - 180 * DAY, is_trial=True)
    assert (said.items, said.bytes) == (6, before[runs[0]])
    assert sampled(lab.database) == before
    assert prune.prune_samples(lab.database, NOW - 180 * DAY) == said
    assert sampled(lab.database) == before | {runs[0]: 0}
    assert prune.prune_samples(lab.database, NOW - 180 * DAY).items == 0
    with lab.database.reading() as tx:
        assert results(tx, limit=None) == kept


def bundle(lab: Lab, name: str, *blobs: bytes, now: float = NOW - 200 * DAY) -> str:
    manifest = f'{{"name": "{name}"}}'
    sha = hashlib.sha256(manifest.encode()).hexdigest()
    contents = {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
    made = store.StoredBundle(sha=sha, name=name, manifest=manifest, blobs=contents)
    with lab.database.transaction() as tx:
        store.store_bundle(tx, made, now)
    return sha


def test_unused_bundles_go_and_what_they_share_stays(lab: Lab) -> None:
    device = lab.add_device()
    old = bundle(lab, "old", b"own" * 99, b"shared" * 99)
    waiting = bundle(lab, "waiting", b"shared" * 99)
    against = bundle(lab, "against", b"c" * 99)
    pinned = bundle(lab, "pinned", b"d" * 99)
    new = bundle(lab, "new", b"e" * 99, now=NOW)
    lab.submit(device, 1, bundle=waiting, pair=Pair(old=Arm(name=against), metric="hot"))
    pin(lab.database, "bundle", pinned)
    said = prune.prune_bundles(lab.database, NOW - 180 * DAY, is_trial=True)
    assert said.items == 1
    assert 0 < said.bytes < 99
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY) == said
    with lab.database.reading() as tx:
        assert store.load_bundle(tx, old) is None
        assert tx.execute(select(schema.bundle.c.name).where(schema.bundle.c.sha == old)).scalar()
        for sha in (waiting, against, pinned, new):
            assert store.load_bundle(tx, sha)
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 0


def test_a_bundle_that_ran_lately_stays(lab: Lab) -> None:
    device = lab.add_device()
    used = bundle(lab, "used", b"a" * 99)
    lab.submit(device, 1, bundle=used)
    (job,) = lab.pick(device)
    lab.record(replace(lab.answer(job), bundle=used))
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 0
    assert prune.prune_bundles(lab.database, NOW + DAY).items == 1


def test_what_a_schedule_runs_stays_while_there_is_the_schedule(lab: Lab) -> None:
    monthly, yearly = (bundle(lab, name, name.encode() * 99) for name in ("monthly", "yearly"))
    with lab.database.transaction() as tx:
        for name, sha in (("monthly", monthly), ("yearly", yearly), ("nightly", "")):
            schedules.add(
                tx, name=name, cron="@monthly", selection={"bundle": sha}, user="ann", now=NOW
            )
        schedules.enable(tx, schedules.find(tx, "yearly").id, False)
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 0
    with lab.database.transaction() as tx:
        schedules.remove(tx, schedules.find(tx, "monthly").id)
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 1
    with lab.database.reading() as tx:
        assert store.load_bundle(tx, yearly)


def test_what_ran_in_a_run_that_is_a_baseline_stays(lab: Lab) -> None:
    lab.now = NOW - 200 * DAY
    device = lab.add_device()
    asked, packaged = (bundle(lab, name, name.encode() * 99) for name in ("asked", "packaged"))
    run = lab.submit(device, 1, bundle=asked)
    (job,) = lab.pick(device)
    lab.record(replace(lab.answer(job), bundle=asked))
    other = lab.submit(device, 1)
    (job,) = lab.pick(device)
    lab.record(replace(lab.answer(job), bundle=packaged))
    with lab.database.reading() as tx:
        uuids = [queries.find_run(tx, str(each)).uuid for each in (run, other)]
    for name, uuid in zip(("first", "second"), uuids, strict=True):
        pin(lab.database, "run", uuid, name)
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 0


def test_the_command_says_what_it_removes(
    lab: Lab, runs: list[int], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["db", "prune", "--database", url, "--older-than"]
    for age in ("", "0d", "180", "-1d", "1e9d", "٣d"):
        assert main([*words, age]) == 2
    assert "is no age" in capsys.readouterr().err
    assert main([*words, "1d", "--samples", "--dry-run"]) == 0
    trial = capsys.readouterr().out
    assert "12 timings' samples" in trial
    assert "would be removed" in trial
    assert "bundles" not in trial
    assert main([*words, "1d"]) == 0
    said = capsys.readouterr().out
    assert "12 timings' samples" in said
    assert "0 bundles" in said
    assert "VACUUM" in said


def test_builds_are_needed_that_ran_lately_or_wait_or_are_of_an_open_regression(
    lab: Lab, planted_regression: Callable[..., int]
) -> None:
    device = lab.add_device()
    ran, old, waiting, before, after, idle = (word * 64 for word in "abcdef")
    builds = [ran, old, waiting, before, after, idle]
    lab.submit(device, 1, bundle=ran, pair=Pair(old=Arm(name=old), metric="hot"))
    (job,) = lab.pick(device)
    lab.record(replace(lab.answer(job), bundle=ran))
    with lab.database.reading() as tx:
        assert {ran, old} <= prune.needed_arms(tx, builds, NOW - 30 * DAY)
        assert not prune.needed_arms(tx, builds, NOW + DAY) & {ran, old}
    lab.submit(device, 1, bundle=waiting)
    planted_regression(device, "mul_mat_vec/q4_0/m1_n1_k256", before, after)
    with lab.database.reading() as tx:
        needed = prune.needed_arms(tx, builds, NOW + DAY)
    assert needed & set(builds) == {waiting, before, after}


def test_drivers_are_needed_that_ran_lately_or_wait_or_are_of_an_open_regression(
    lab: Lab, planted_regression: Callable[..., int]
) -> None:
    def environment(**extra: str) -> Environment:
        return replace(ENVIRONMENT, extra=extra)

    ran, waiting, old, new = (word * 64 for word in "abcd")
    through = environment(driver_sha="1" * 12, driver_name="mine")
    before, after = environment(icd_library="2" * 12), environment(icd_library="3" * 12)
    device = lab.add_device()
    with lab.database.transaction() as tx:
        for known in (through, before, after):
            store_environment(tx, known)
    pair = Pair(old=Arm(name=old, kind=ArmKind.DRIVER), metric="hot")
    lab.submit(device, 1, bundle=new, arm_kind=ArmKind.DRIVER, pair=pair)
    lab.settle(device)
    lab.submit(device, 1, driver=ran)
    (job,) = lab.pick(device)
    lab.record(replace(lab.answer(job), environment=through.hash))
    with lab.database.reading() as tx:
        assert prune.needed_drivers(tx, NOW - DAY) == {"1" * 12, old, new}
        assert not prune.needed_drivers(tx, NOW + DAY)
    pin(lab.database, "driver", "mine")
    with lab.database.transaction() as tx:
        schedules.add(tx, name="s", cron="@weekly", selection={"driver": "*"}, user="ann", now=NOW)
    lab.submit(device, 1, driver=waiting)
    planted_regression(device, "mul_mat_vec/q4_0/m1_n1_k256", "", "")
    with lab.database.transaction() as tx:
        sides = {"before_environment": before.hash, "after_environment": after.hash}
        tx.execute(update(schema.change_point).values(**sides))
    with lab.database.reading() as tx:
        needed = prune.needed_drivers(tx, NOW + DAY)
    assert needed == {"*", "1" * 12, "2" * 12, "3" * 12, waiting, "mine"}


def test_what_an_open_regression_needs_stays_until_it_is_closed(
    lab: Lab, planted_regression: Callable[..., int]
) -> None:
    device = lab.add_device()
    sides = [bundle(lab, name, name.encode() * 99) for name in ("before", "after")]
    case = "mul_mat_vec/q4_0/m1_n1_k256"
    regression = planted_regression(device, case, *sides)
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 0
    with lab.database.transaction() as tx:
        known = schema.regression
        tx.execute(update(known).where(known.c.id == regression).values(state="closed"))
    assert prune.prune_bundles(lab.database, NOW - 180 * DAY).items == 2
