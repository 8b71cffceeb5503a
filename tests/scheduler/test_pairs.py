"""Runs of paired jobs as they stand in the database, and as they are sent."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from planted_runs import DEVICE
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.job import Arm, ArmKind, Job, Mode, Pair, PlannedJob, Source, pair_of
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_scheduler.planning.pairs import PRIORITY, PairPlan, more_pairs, submit_pairs
from vkbench_scheduler.queue.chunks import ChunkBounds, cut

OLD, NEW = Arm(name="0a" * 32), Arm(name="0b" * 32)
CASE = "copy/f32/n1024"
SUSPICION = Purpose(kind=RunKind.CONFIRMATION, about={"change": 7})
KEYS = ("aaaaaaaaaaaa", "bbbbbbbbbbbb")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{tmp_path / 'x.db'}", create=True) as database:
        with database.transaction() as tx:
            for key in KEYS:
                store_device(tx, facts(key))
        yield database


def facts(key: str) -> DeviceFacts:
    return replace(DEVICE, key=key, uuid=key, name="null", type="cpu")


def submitted(database: Database, *, case: str = CASE, count: int = 2) -> int:
    with database.transaction() as tx:
        return submit_pairs(
            tx,
            PairPlan(
                case=case,
                variant="plain",
                metric="cold",
                old=OLD,
                new=NEW,
            ),
            devices=KEYS,
            count=count,
            now=1.0,
            words=RunWords(label="a change", purpose=SUSPICION),
        )


def picked(database: Database, device: str = KEYS[0]) -> list[Job]:
    with database.transaction() as tx:
        return [pick.job for pick in store.pick(tx, device, 100, 2.0)]


def test_pairs_time_two_of_a_kind(database: Database) -> None:
    old, new = (Arm(kind=ArmKind.DRIVER, name=name * 64) for name in "ab")
    mixed = PairPlan(case=CASE, variant="plain", metric="hot", old=old, new=NEW)
    cold = PairPlan(case=CASE, variant="plain", metric="cold", old=old, new=new)
    for plan, complaint in ((mixed, "two builds or two drivers"), (cold, "timed hot alone")):
        with database.transaction() as tx, pytest.raises(UsageError, match=complaint):
            submit_pairs(tx, plan, devices=KEYS, count=1, now=1.0, words=RunWords())
    plan = replace(cold, metric="hot")
    with database.transaction() as tx:
        submit_pairs(tx, plan, devices=KEYS, count=1, now=1.0, words=RunWords())
    [job] = picked(database)
    assert (job.drivers, job.bundles, job.arms) == ((old.name, new.name), (), (old, new))


def test_pairs_are_on_no_track_and_go_first(database: Database) -> None:
    run = submitted(database)
    with database.reading() as tx:
        row = tx.execute(select(schema.run).where(schema.run.c.id == run)).one()
    assert (row.track, row.priority, row.mode, row.kind, row.about) == (
        "",
        PRIORITY,
        "paired",
        "confirmation",
        {"change": 7},
    )
    [first, second] = picked(database)
    assert first.arm == NEW
    assert first.pair == Pair(old=OLD, metric="cold")
    assert first.variant == "plain"
    assert first.mode is Mode.PAIRED
    assert first.alone
    assert second.case == CASE


def test_each_pair_travels_in_a_message_of_its_own(database: Database) -> None:
    submitted(database, count=3)
    with database.transaction() as tx:
        picked = store.pick(tx, KEYS[0], 100, 2.0)
        chunks = list(cut(picked, ChunkBounds(seconds=1000, jobs=200)))
    assert [len(chunk) for chunk in chunks] == [1, 1, 1]


def test_more_pairs_are_like_those_before(database: Database) -> None:
    run = submitted(database)
    with database.transaction() as tx:
        more_pairs(tx, run, 3)
    jobs = picked(database)
    assert len(jobs) == 5
    same = {
        replace(job, id=0, token=0, pair=replace(pair_of(job), new_first=False)) for job in jobs
    }
    assert same == {replace(jobs[0], id=0, token=0)}
    assert len(picked(database, KEYS[1])) == 5


@pytest.mark.parametrize("device", KEYS)
def test_pairs_take_turns_in_which_bundle_begins(database: Database, device: str) -> None:
    run = submitted(database, count=3)
    with database.transaction() as tx:
        more_pairs(tx, run, 1)
        more_pairs(tx, run, 2)
    assert [pair_of(job).new_first for job in picked(database, device)] == [False, True] * 3


def test_weights_are_looked_for_where_they_were(database: Database) -> None:
    case = "mul_mat_vec/q8_0/m64_n1_k64/weights=0123456789abcdef"
    source = Source(path="/models/a.gguf", tensor="t")
    with database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=0.0)
        before = PlannedJob(device=KEYS[0], case=case, mode=Mode.PERFORMANCE, source=source)
        store.add_jobs(tx, run.id, [before])
    picked(database)
    submitted(database, case=case, count=1)
    assert [job.source for job in picked(database)] == [source]
    assert [job.source for job in picked(database, KEYS[1])] == [None]
