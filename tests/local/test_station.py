"""Devices of one run at work side by side: what each does, and what becomes of the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from sqlalchemy import Connection, select

import planted_runs
from planted_runner import events_path
from vkbench.job import JobState, Mode, PlannedJob
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_db.work.results import StoredBatch
from vkbench_local.executor import Executor, stoppable
from vkbench_local.station import MOST_AT_ONCE
from vkbench_worker.errors import RunnerFailed

pytestmark = pytest.mark.slow

DEVICES = tuple(
    replace(planted_runs.DEVICE, key=key * 12, name=f"planted {key}", uuid=key * 32, features=())
    for key in "abcd"
)
SLEEP = "sleep/f32/n50"  # ms


def planned(database: Database, cases: Sequence[Sequence[str]]) -> int:
    """A run of some cases on each device."""
    with database.transaction() as tx:
        for facts in DEVICES:
            store_device(tx, facts)
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=time.time())
        jobs = [
            PlannedJob(
                device=facts.key,
                case=case,
                mode=Mode.CORRECTNESS,
                limit_seconds=5.0,
                estimate_seconds=0.01,
            )
            for facts, mine in zip(DEVICES, cases, strict=False)
            for case in mine
        ]
        store.add_jobs(tx, run.id, jobs)
    return run.id


def states(database: Database, run: int) -> dict[str, Counter[str]]:
    """How many jobs of each device are in each state."""
    job, device = schema.job, schema.device
    asked = select(device.c.key, job.c.state).where(job.c.device_id == device.c.id)
    with database.reading() as tx:
        rows = tx.execute(asked.where(job.c.run_id == run)).all()
    return {
        facts.key: Counter(str(JobState(row.state)) for row in rows if row.key == facts.key)
        for facts in DEVICES
    }


def spans(ours: Settings) -> dict[str, list[tuple[float, float]]]:
    """When the jobs of each device began and ended."""
    began: dict[tuple[str, str], float] = {}
    found: dict[str, list[tuple[float, float]]] = {facts.key: [] for facts in DEVICES}
    for line in events_path(ours).read_text().splitlines():
        kind, device, job, _, at, _ = line.split()
        if kind == "start":
            began[device, job] = float(at)
        else:
            found[device].append((began[device, job], float(at)))
    return found


def test_devices_work_side_by_side_and_are_shown_one_at_a_time(
    planted: Settings, database: Database
) -> None:
    run = planned(database, [[SLEEP] * 20] * len(DEVICES))
    showing, seen = threading.Lock(), Counter[str]()

    def watch(result: Result) -> None:
        assert showing.acquire(blocking=False), "two devices were shown at once"
        seen[result.device] += 1
        time.sleep(0.001)
        showing.release()

    Executor(database, planted, watch).work(run, DEVICES)
    assert states(database, run) == {facts.key: {"passed": 20} for facts in DEVICES}
    assert seen == {facts.key: 20 for facts in DEVICES}
    one, other = spans(planted)[DEVICES[0].key], spans(planted)[DEVICES[1].key]
    beside = sum(a[0] < b[1] and b[0] < a[1] for a, b in product(one, other))
    assert beside > 5


def test_results_that_came_meanwhile_are_stored_together_and_in_order(
    planted: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(database, [["sleep/f32/n1"] * 150])
    stored: list[list[int]] = []
    shown: list[int] = []
    record = store.record

    def recorded(tx: Connection, results: Sequence[Result], now: float) -> StoredBatch:
        time.sleep(0.05)  # a slow disk
        stored.append([result.job for result in results])
        return record(tx, results, now)

    monkeypatch.setattr(store, "record", recorded)
    Executor(database, planted, lambda result: shown.append(result.job)).work(run, DEVICES[:1])
    assert states(database, run)[DEVICES[0].key] == {"passed": 150}
    assert len(stored[0]) < 10 < max(map(len, stored)) <= MOST_AT_ONCE
    assert [job for batch in stored for job in batch] == shown == sorted(shown)


def test_a_crash_is_the_business_of_its_own_device(planted: Settings, database: Database) -> None:
    crashing = [SLEEP, "segfault/f32/n1", SLEEP]
    run = planned(database, [crashing, [SLEEP] * 10, ["hang/f32/n1"]])
    seen: list[Result] = []
    Executor(database, planted, seen.append).work(run, DEVICES[:2])
    found = states(database, run)
    assert found[DEVICES[0].key] == {"passed": 2, "failed": 1}
    assert found[DEVICES[1].key] == {"passed": 10}
    assert found[DEVICES[2].key] == {"queued": 1}
    assert Counter((each.device, each.outcome) for each in seen) == {
        (DEVICES[0].key, "passed"): 2,
        (DEVICES[0].key, "crashed"): 3,
        (DEVICES[1].key, "passed"): 10,
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_stops_all_after_the_jobs_on_them(
    planted: Settings, database: Database, number: int
) -> None:
    run = planned(database, [["sleep/f32/n300"] * 10] * 2)
    seen: Counter[str] = Counter()

    def watch(result: Result) -> None:
        seen[result.device] += 1
        if len(seen) == 2 and sum(seen.values()) == 2:
            os.kill(os.getpid(), number)

    executor = Executor(database, planted, watch)
    with stoppable(executor):
        executor.work(run, DEVICES[:2])
    assert executor.stopped
    for found in list(states(database, run).values())[:2]:
        assert set(found) == {"passed", "queued"}
        assert 1 <= found["passed"] <= 4
    Executor(database, planted, lambda result: None).work(run, DEVICES[:2])
    assert list(states(database, run).values())[:2] == [{"passed": 10}] * 2


def test_a_device_that_cannot_be_used_does_not_stop_the_others(
    planted: Settings, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = replace(DEVICES[0], key="none")
    other = replace(DEVICES[1], key="none", name="planted z")
    run = planned(database, [[SLEEP], [SLEEP], [SLEEP] * 5])
    executor = Executor(database, planted, lambda result: None)
    with pytest.raises(RunnerFailed, match=r"^planted a: no Vulkan device"):
        executor.work(run, [gone, other, DEVICES[2]])
    assert states(database, run)[DEVICES[2].key] == {"passed": 5}
    assert capsys.readouterr().err == "planted z: no Vulkan device: install a driver\n"
