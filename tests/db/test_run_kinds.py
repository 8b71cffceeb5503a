"""Runs of work are told apart from vkbench's own, and `last` is one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import select

from databases import Lab
from vkbench.calibration import SUITE
from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName
from vkbench.job import PEERS, SHARDS, Mode
from vkbench.wire import from_builtins
from vkbench_db import schema
from vkbench_db.ask.queries import find_run
from vkbench_db.work import store
from vkbench_db.work.run_kinds import COMPARED, SWEEP, RunKind, kind
from vkbench_scheduler.planning.pairs import submit_pairs
from vkbench_scheduler.planning.trial import submit_trial

CASE = "add/f32/h1_w1"
PLAIN: Mapping[RunKind, Mapping[str, Any]] = {
    RunKind.WORK: {"mode": Mode.BOTH, "tags": {"pr": "tune: 7"}},
    RunKind.SWEEP: {"mode": Mode.PERFORMANCE, "track": "", "tags": {SWEEP: {"exhaustive": True}}},
    RunKind.CALIBRATION: {"mode": Mode.BOTH, "selection": {"suite": SUITE}},
    RunKind.SHARD: {"mode": Mode.SHARDED, "track": SHARDS},
    RunKind.ACCURACY: {"mode": Mode.ACCURACY, "track": ""},
    RunKind.IMPORT: {"mode": Mode.PERFORMANCE, "track": PEERS, "tags": {"peer": "ggml"}},
}


def make(lab: Lab, wanted: RunKind, device: str) -> int:
    """A run of a kind, as whoever makes such runs makes it."""
    lab.now += 60
    with lab.database.transaction() as tx:
        if wanted in PLAIN:
            options: dict[str, Any] = {"selection": {}, **PLAIN[wanted]}
            return store.create_run(tx, now=lab.now, **options).id
        if wanted is RunKind.TRIAL:
            facts = tx.execute(select(schema.device.c.facts)).scalar_one()
            return submit_trial(tx, from_builtins(facts, DeviceFacts), lab.now)
        tags = {"change_point": 1} if wanted is RunKind.CONFIRMATION else {"bisection": 1}
        return submit_pairs(
            tx,
            devices=[device],
            case=CASE,
            variant="subgroup",
            metric="hot",
            old="aa" * 32,
            new="bb" * 32,
            count=1,
            label="pairs",
            tags=tags,
            now=lab.now,
        )


def test_each_kind_of_run_is_known(lab: Lab) -> None:
    device = lab.add_device()
    made = {make(lab, wanted, device): wanted for wanted in RunKind}
    with lab.database.reading() as tx:
        found = dict(tx.execute(select(schema.run.c.id, kind())).all())
    assert found == made


def test_the_last_run_is_one_of_work(lab: Lab) -> None:
    device = lab.add_device()
    with lab.database.reading() as tx, pytest.raises(UnknownName):
        find_run(tx, "last")
    work = make(lab, RunKind.WORK, device)
    for wanted in RunKind:
        if wanted not in (RunKind.WORK, RunKind.SHARD, RunKind.ACCURACY):
            make(lab, wanted, device)
            with lab.database.reading() as tx:
                assert find_run(tx, "last").id == work, wanted
    sharded = make(lab, RunKind.SHARD, device)
    accuracy = make(lab, RunKind.ACCURACY, device)
    with lab.database.reading() as tx:
        assert find_run(tx, "last").id == accuracy
        assert find_run(tx, "last", COMPARED).id == sharded
        assert find_run(tx, str(accuracy), COMPARED).id == accuracy  # as it was named


def test_other_runs_are_found_by_their_numbers(lab: Lab) -> None:
    device = lab.add_device()
    for wanted in RunKind:
        run = make(lab, wanted, device)
        with lab.database.reading() as tx:
            assert find_run(tx, str(run)).id == run
