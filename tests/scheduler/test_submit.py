"""Submitting: all of a run or nothing of it, once for a key."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Table, func, select

from planted_runs import DEVICE, ENVIRONMENT
from vkbench.device import DeviceFacts, device_key
from vkbench.errors import UnknownName, UsageError
from vkbench.job import Mode
from vkbench.messages.wire import Announcement
from vkbench.run import RunWords
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_scheduler.planning.plan import count
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit
from vkbench_shaders.bundle import Bundle, manifest_text

FACTS = replace(DEVICE, name="llvmpipe", type="cpu")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database that knows one device."""
    word = Announcement(worker="w", facts=FACTS, environment=ENVIRONMENT, bundle="")
    with Database.open(f"sqlite:///{tmp_path / 'x.db'}", create=True) as made:
        with made.transaction() as tx:
            store.register_device(tx, word, 1.0)
        yield made


def stored(database: Database, what: Table) -> int:
    with database.reading() as tx:
        return int(tx.execute(select(func.count()).select_from(what)).scalar_one())


def test_a_submission_is_a_run_with_its_jobs(database: Database) -> None:
    selection = Selection(suite="quick", mode=Mode.CORRECTNESS, priority=3)
    made = submit(database, selection, [FACTS], words=RunWords(user="ann", label="try"))
    assert made.run.new
    assert made.jobs == stored(database, schema.job) == count(selection, [FACTS])
    with database.reading() as tx:
        run = tx.execute(select(schema.run)).one()
    assert (run.user_name, run.label, run.priority, run.mode) == ("ann", "try", 3, "correctness")
    assert run.selection["suite"] == "quick"
    assert "weights" not in run.selection


def test_one_key_is_one_run(database: Database) -> None:
    selection = Selection(kernels=("copy",), formats=("f32",))
    first = submit(database, selection, [FACTS], words=RunWords(idempotency_key="tonight"))
    again = submit(database, selection, [FACTS], words=RunWords(idempotency_key="tonight"))
    assert (again.run.id, again.run.new, again.jobs) == (first.run.id, False, 0)
    assert stored(database, schema.job) == first.jobs


def test_a_bad_selection_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(UnknownName):
        submit(database, Selection(kernels=("copi",)), [FACTS])
    stranger = device_key("beta", "cpu")
    with pytest.raises(UnknownName):
        submit(database, Selection(kernels=("copy",)), [_other(stranger)])
    assert stored(database, schema.run) == stored(database, schema.job) == 0


def test_a_bundle_of_ones_own_is_stored_with_the_run(database: Database) -> None:
    bundle = Bundle(text=manifest_text("1", "", (), {}), blobs={}, name="mine")
    made = submit(database, Selection(kernels=("copy",)), [FACTS], bundle=bundle)
    with database.reading() as tx:
        named = tx.execute(select(schema.job.c.bundle).distinct()).scalars().all()
    assert named == [bundle.sha]
    assert made.jobs


@pytest.mark.slow
def test_a_hundred_thousand_jobs_cost_ten_times_ten_thousand(database: Database) -> None:
    once = count(Selection(suite="spine", mode=Mode.CORRECTNESS), [FACTS])

    def seconds_of(jobs: int) -> float:
        repeat = -(-jobs // once)
        selection = Selection(suite="spine", mode=Mode.CORRECTNESS, repeat=repeat)
        began = time.process_time()
        assert submit(database, selection, [FACTS]).jobs >= jobs
        return time.process_time() - began

    few = seconds_of(10_000)
    assert seconds_of(100_000) < 15 * few


def _other(key: str) -> DeviceFacts:
    return replace(FACTS, key=key)


@pytest.mark.parametrize("track", ["main", "lab", ""])
def test_a_run_is_on_the_track_that_it_asks_for(database: Database, track: str) -> None:
    made = submit(database, Selection(kernels=("copy",), track=track), [FACTS])
    with database.reading() as tx:
        query = select(schema.run.c.track).where(schema.run.c.id == made.run.id)
        assert tx.execute(query).scalar_one() == track


@pytest.mark.parametrize("track", ["peers", "shards"])
def test_no_run_joins_the_track_of_peers_or_shards(database: Database, track: str) -> None:
    with pytest.raises(UsageError, match=f"the track {track} is not for runs"):
        submit(database, Selection(kernels=("copy",), track=track), [FACTS])
    assert stored(database, schema.run) == 0
