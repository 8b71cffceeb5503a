"""`vkbench regressions confirm`: what is suspected is measured again here, with no server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planted_add import SLOW, planted_add
from planted_night import LEVEL, NIGHT, TIMING, VERDICT, Timed, quiet_nights, settle
from vkbench.device import DeviceFacts
from vkbench.job import SHARDS, Mode, Outcome, PlannedJob
from vkbench.result import COPIES, HOT, Result
from vkbench_db.database import Database
from vkbench_db.work.devices import store_device
from vkbench_db.work.ended import add_ended
from vkbench_db.work.runs import create_run
from vkbench_detection.confirm.levels import LASTING
from vkbench_detection.steps import detect
from vkbench_scheduler.bundles import keep
from vkbench_shaders.bundle import packaged_sha
from vkbench_worker.owner.probe import local_devices


@pytest.mark.timeout(300)
def test_a_slower_kernel_is_confirmed_here(vkbench: Callable[..., Any], database: Path) -> None:
    slow = planted_add(SLOW)
    facts = local_devices()[0]
    now = time.time()
    with Database.open(f"sqlite:///{database}") as opened:
        with opened.transaction() as tx:
            keep(tx, slow, now)
            store_device(tx, facts)
        quiet_nights(opened, facts.key, packaged_sha(), now)
        settle(opened, facts.key, slow.sha, 1.5 * LEVEL, now)
        detect(opened, now)
    (suspected,) = vkbench("regressions", "suspected", "--json").rows
    assert (suspected["direction"], suspected["state"]) == ("slower", "suspected")
    ended = vkbench("regressions", "confirm", str(suspected["change"]))
    assert ended.code == 0, ended.err
    assert "confirmed (kernel)" in ended.err
    assert "pairs of both bundles differ" in ended.err
    (found,) = vkbench("regressions", "ls", "--json").rows
    assert (found["direction"], found["cause"], found["state"]) == ("slower", "kernel", "open")
    assert found["ratio"] > 1.05
    assert vkbench("regressions", "ls", "--fail-on", "open").code == 1
    nothing = vkbench("regressions", "confirm")
    assert nothing.code == 7
    assert "there is no suspected change" in nothing.err


def test_what_is_concluded_without_pairs_is_said(
    vkbench: Callable[..., Any], database: Path
) -> None:
    facts, now, gone = local_devices()[0], time.time(), "ab" * 32
    with Database.open(f"sqlite:///{database}") as opened:
        with opened.transaction() as tx:
            store_device(tx, facts)
        quiet_nights(opened, facts.key, packaged_sha(), now)
        settle(opened, facts.key, gone, 1.5 * LEVEL, now)
        detect(opened, now)
    (suspected,) = vkbench("regressions", "suspected", "--json").rows
    ended = vkbench("regressions", "confirm")
    assert ended.code == 0, ended.err
    assert f"change {suspected['change']}, add/" in ended.err
    assert ": ambiguous, its bundle is not kept: only more results can tell" in ended.err


@pytest.mark.timeout(300)
@pytest.mark.parametrize("metric", ["hot", "cold"])
def test_a_driver_that_is_slower_with_submissions_is_confirmed_here(
    vkbench: Callable[..., Any], database: Path, metric: str
) -> None:
    case = "launch_rate/u32/s64_n1"
    facts, now = local_devices()[0], time.time()
    run = ("run", "--case", case, "--mode", "performance", "--seconds", "0.3", "--track", "none")
    assert vkbench(*run).code == 0
    [timed] = vkbench("results", "--run", "last", "--json").rows
    of = Timed(case=case, variant="timeline", seconds=timed[f"{metric}_seconds"], metric=metric)
    # An earlier driver, so fast that a busy machine cannot halve the change when it times again.
    before = replace(of, seconds=of.seconds / 5000, environment="1" * 64)
    with Database.open(f"sqlite:///{database}") as opened:
        quiet_nights(opened, facts.key, packaged_sha(), now, of=before)
        for minutes in range(LASTING, 0, -1):
            settle(opened, facts.key, packaged_sha(), of.seconds, now - 60 * minutes, of)
        detect(opened, now)
    (suspected,) = vkbench("regressions", "suspected", "--json").rows
    assert (suspected["direction"], suspected["state"]) == ("slower", "suspected")
    ended = vkbench("regressions", "confirm", str(suspected["change"]))
    assert ended.code == 0, ended.err
    assert "confirmed (environment)" in ended.err
    (found,) = vkbench("regressions", "ls", "--json").rows
    assert (found["direction"], found["cause"]) == ("slower", "environment")


def test_a_suspicion_of_shards_is_left_to_later_results(
    vkbench: Callable[..., Any], asked: Callable[..., Any], database: Path
) -> None:
    case, facts, now = "matmul/f16/b1_m64_n32_k48", local_devices()[0], time.time()
    words = ("shard", case, "--shards", "2", "--seconds", "0.02", "--device", facts.key)
    with Database.open(f"sqlite:///{database}") as opened:
        for night in range(25, 0, -1):
            divide(opened, facts, case, now - night * NIGHT)
        detect(opened, now)
    ended = vkbench(*words)  # a thousand times slower than all the nights
    assert ended.code == 0, ended.err
    assert "2 changes suspected" in ended.err
    rows = vkbench("regressions", "suspected", "--json").rows
    assert {(row["metric"], row["state"]) for row in rows} == {
        ("hot", "suspected"),
        ("copies", "suspected"),
    }
    refused = asked("regressions", "confirm")
    assert refused.code == 7
    assert "pairs do not measure shards" in refused.err
    assert vkbench("regressions", "suspected", "--json").rows == rows


def divide(database: Database, facts: DeviceFacts, case: str, now: float) -> None:
    """A night's result of two shards, which took no time worth mentioning."""
    planned = PlannedJob(device=facts.key, case=case, mode=Mode.SHARDED, variant="auto:shards=2")
    noise = 1 + hash(now) % 7 / 1000
    result = Result(
        job=0, token=0, outcome=Outcome.PASSED, case=case, variant="portable:shards=2",
        kernel_sha="5a" * 32, verdict=VERDICT, started=now, seconds=0.1, environment="1" * 64,
        timings=tuple(
            replace(TIMING, metric=metric, seconds=1e-7 * noise) for metric in (HOT, COPIES)
        ),
    )  # fmt: skip
    with database.transaction() as tx:
        store_device(tx, facts)
        run = create_run(tx, mode=Mode.SHARDED, selection={}, now=now, track=SHARDS).id
        add_ended(tx, run, [(planned, result)], now)
