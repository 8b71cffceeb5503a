"""Each run says what it is for; `last` is one of work; tags are their users' alone."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import exc, select, text, update

from databases import Lab
from exported import sealed
from vkbench.errors import UnknownName
from vkbench.job import MAIN, PEERS, Mode
from vkbench.run import COMPARED, Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.ask.queries import RunRow, find_run
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_db.upkeep import second_checks
from vkbench_db.upkeep.tuning import sweeps
from vkbench_db.work import store

CASE = "add/f32/h1_w1"
# Runs as older versions stored them, and what each is for: mode, track, priority, label, tags.
OLD_RUNS = {
    ("both", MAIN, 0, "", '{"pr": "tune: 7"}'): ("work", {}, {"pr": "tune: 7"}),
    ("both", "", 0, "", '{"tune": "7"}'): ("work", {}, {"tune": "7"}),
    ("both", MAIN, 0, "nightly", '{"schedule": "nightly", "slot": "2026"}'): (
        *("work", {"schedule": "nightly", "slot": "2026"}, {}),
    ),
    ("performance", "", 0, "", '{"tune": {"rounds": 2}, "unkept": ["*"]}'): (
        *("sweep", {"sweep": {"rounds": 2}, "unkept": ["*"]}, {}),
    ),
    ("paired", "", 1000, "", '{"change_point": 7}'): ("confirmation", {"change": 7}, {}),
    ("paired", "", 1000, "", '{"bisection": 3, "position": 2}'): (
        *("bisection", {"bisection": 3, "position": 2}, {}),
    ),
    ("performance", "", 1000, "second check", '{"suspect": 9, "told": 5.0}'): (
        *("second check", {"job": 9, "told_at": 5.0}, {}),
    ),
    ("performance", "", 1_000_000, "trial", "{}"): ("trial", {}, {}),
    ("sharded", "shards", 0, "", "{}"): ("shard", {}, {}),
    ("accuracy", "", 0, "", "{}"): ("accuracy", {}, {}),
    ("performance", PEERS, 0, "", '{"peer": "ggml"}'): ("import", {"peer": "ggml"}, {}),
}


def make(lab: Lab, kind: RunKind) -> int:
    """A run of a kind, a minute after the last one."""
    lab.now += 60
    with lab.database.transaction() as tx:
        return store.create_run(
            tx,
            mode=Mode.BOTH,
            selection={},
            now=lab.now,
            words=RunWords(purpose=Purpose(kind=kind)),
        ).id


def find(lab: Lab, asked: str) -> RunRow:
    with lab.database.reading() as tx:
        return find_run(tx, asked)


def test_the_last_run_is_one_of_work(lab: Lab) -> None:
    with pytest.raises(UnknownName):
        find(lab, "last")
    work = make(lab, RunKind.WORK)
    for kind in RunKind:
        if kind not in (RunKind.WORK, RunKind.SHARD, RunKind.ACCURACY):
            make(lab, kind)
            assert find(lab, "last").id == work, kind
    sharded, accuracy = make(lab, RunKind.SHARD), make(lab, RunKind.ACCURACY)
    with lab.database.reading() as tx:
        assert find_run(tx, "last").id == accuracy
        assert find_run(tx, "last", COMPARED).id == sharded
        assert find_run(tx, str(accuracy), COMPARED).id == accuracy  # as it was named


def test_other_runs_are_found_by_their_numbers(lab: Lab) -> None:
    for kind in RunKind:
        run = make(lab, kind)
        assert find(lab, str(run)).id == run


def test_no_tag_of_a_user_makes_a_run_anything_else(lab: Lab) -> None:
    """The keys in which sweeps, bisections and second checks once said what they are."""
    tags = {"tune": {}, "unkept": ["*"], "bisection": 1, "suspect": 1}
    planned = lab.planned(lab.add_device(), CASE)
    run = lab.submit_run([planned], words=RunWords(label="second check", tags=tags))
    with lab.database.reading() as tx:
        assert not sweeps(tx)
        assert not second_checks.untold_checks(tx, 0.0)
    assert find(lab, "last").id == run
    assert find(lab, "last").tags == tags


def test_the_database_takes_no_other_kind(lab: Lab) -> None:
    run = make(lab, RunKind.WORK)
    with pytest.raises(exc.IntegrityError), lab.database.transaction() as tx:
        tx.execute(update(schema.run).where(schema.run.c.id == run).values(kind="joy"))


def test_exported_runs_of_older_versions_say_what_they_are_for(lab: Lab) -> None:
    """Lines without a kind, whose makers kept all they knew in tags."""
    run = make(lab, RunKind.WORK)
    with lab.database.reading() as tx:
        header, line, *_ = export_run(tx, run)
    for number, ((mode, track, priority, label, tags), wanted) in enumerate(OLD_RUNS.items()):
        told = json.loads(line)
        del told["run"]["kind"], told["run"]["about"]
        told["run"] |= {"mode": mode, "track": track, "priority": priority, "label": label}
        told["run"] |= {"uuid": f"{number:08}", "tags": json.loads(tags)}
        with lab.database.transaction() as tx:
            [imported] = import_lines(tx, sealed([header, json.dumps(told) + "\n"]), lab.now).runs
            [row] = tx.execute(select(schema.run).where(schema.run.c.id == imported))
        assert (row.kind, row.about, row.tags) == wanted


def test_what_imports_say_of_second_checks_is_told_to_nobody(lab: Lab) -> None:
    lab.submit(lab.add_device(), [CASE])
    with lab.database.transaction() as tx:
        second_checks.submit(tx, [1], lab.now)
        assert [check.job for check in second_checks.untold_checks(tx, 0.0)] == [1]
        tx.execute(text("UPDATE run SET imported_at = created_at"))
        assert not second_checks.untold_checks(tx, 0.0)
