"""Pairs and tracks as commands meet them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from commands import Captured, read_rows
from planted_runs import Past
from vkbench.job import Arm, Outcome
from vkbench.result import Result, Side
from vkbench.run import Purpose, RunKind, RunWords
from vkbench.settings import Settings
from vkbench_cli.bundles import bundle_named
from vkbench_cli.options.effort import Effort
from vkbench_cli.options.records import Selecting
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_local.executor import Executor
from vkbench_scheduler.bundles import keep
from vkbench_scheduler.planning.pairs import PairPlan, submit_pairs
from vkbench_shaders.bundle import Bundle, BundleStore, UnknownBundle, manifest_text, packaged

A_CONFIRMATION = Purpose(kind=RunKind.CONFIRMATION)


def pairs(past: Past, case: str, old: str, count: int = 1) -> int:
    with past.database.transaction() as tx:
        return submit_pairs(
            tx,
            PairPlan(
                case=case,
                variant="auto",
                metric="hot",
                old=Arm(name=old),
                new=Arm(name=packaged().sha),
            ),
            devices=[past.device.key],
            count=count,
            now=time.time(),
            words=RunWords(label="pairs", purpose=A_CONFIRMATION),
        )


def build(tree: str) -> Bundle:
    """One of the packaged kernels, as if of another tree."""
    [entry, *_] = packaged().manifest.entries
    blobs = {entry.sha256: packaged().blobs[entry.sha256]}
    text = manifest_text("1", tree, (entry,), packaged().manifest.interfaces)
    return Bundle(text=text, blobs=blobs, name="old")


def test_pairs_are_shown_when_asked_for(past: Past, capsys: Captured) -> None:
    run = pairs(past, "copy/f32/n4096", "0a" * 32, 2)
    with past.database.transaction() as tx:
        first, second = (pick.job for pick in store.pick(tx, past.device.key, 9, 1.0, run=run))
        hot, _ = past.done(2e-3).timings
        arms = (replace(hot, side=Side.OLD), replace(hot, side=Side.NEW, seconds=3e-3))
        timed = replace(past.done(1.0), job=first.id, token=first.token, timings=arms)
        wrong = past.wrong("new: NaN")
        store.record(tx, [timed, replace(wrong, job=second.id, token=second.token)], time.time())
    assert {row["mode"] for row in read_rows(capsys, "results")} == {"performance"}
    for words in (["--run", "pairs"], ["--mode", "paired", "--history"]):
        shown = read_rows(capsys, "results", *words)
        assert [row["mode"] for row in shown] == ["paired"] * 2
        [passed] = [row for row in shown if row["verdict"] == Outcome.PASSED]
        assert (passed["old_seconds"], passed["new_seconds"]) == (2e-3, 3e-3)
        assert passed["hot_seconds"] is None
        assert {row["reason"] for row in shown} == {"", "new: NaN"}


def test_a_run_brings_the_bundles_that_its_runner_lacks(past: Past, planted: Settings) -> None:
    old = build("brought")
    with past.database.transaction() as tx:
        keep(tx, old, 1.0)
    run = pairs(past, "sleep/f32/n1", old.sha)
    seen: list[Result] = []
    Executor(past.database, planted, seen.append).work(run, [past.device])
    assert [result.outcome for result in seen] == [Outcome.PASSED]
    assert BundleStore(planted.cache / "bundles").get(old.sha).blobs == old.blobs


def test_bundles_of_the_database_are_asked_for_like_those_of_the_machine(
    database: Database,
) -> None:
    old = build("asked for")
    with database.transaction() as tx:
        with pytest.raises(UnknownBundle):
            bundle_named(tx, old.sha[:12])
        keep(tx, old, 1.0)
        bundle = bundle_named(tx, old.sha[:12])
        assert bundle
        assert bundle.sha == old.sha
        assert bundle_named(tx, "") is None


@pytest.mark.parametrize(
    ("word", "track"), [("main", "main"), ("none", ""), ("None", ""), ("", ""), ("lab", "lab")]
)
def test_a_run_says_whose_history_it_joins(word: str, track: str) -> None:
    assert Selecting().selection(Effort(track=word)).track == track
    assert Selecting().selection(Effort()).track == "main"
