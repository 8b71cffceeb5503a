"""The executor of `vkbench run`: every job once, whatever ends in the middle."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

import planted_runs
from vkbench.errors import UsageError
from vkbench.job import JobState, Mode, PlannedJob
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_cli.main import main
from vkbench_db import schema
from vkbench_db.ask.devices.queues import queues
from vkbench_db.ask.queries import devices
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import attendance
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_detection.confirm.fleet import served_devices, watched_devices
from vkbench_local.executor import DatabaseInUse, Executor, sole_executor, stoppable
from vkbench_tables.devices import state_of
from vkbench_worker.protocol import lock_path

pytestmark = pytest.mark.slow

DEVICE = replace(planted_runs.DEVICE, name="planted", features=())

EXECUTE = """
import sys
from vkbench.settings import settings
from vkbench.messages.wire import decode
from vkbench.device import DeviceFacts
from vkbench_local.executor import Executor, sole_executor, stoppable
from vkbench_db.ask.queries import devices
from vkbench_db.ask.devices.queues import queues
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import attendance
url = settings().database_url()
with sole_executor(url), Database.open(url) as database:
    executor = Executor(database, settings(), lambda result: print(result.job, flush=True))
    with stoppable(executor):
        executor.work(int(sys.argv[1]), [decode(sys.argv[2], DeviceFacts)])
"""


def planned(database: Database, cases: Sequence[str]) -> int:
    """A run of these cases on the planted device."""
    with database.transaction() as tx:
        store_device(tx, DEVICE)
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=time.time())
        jobs = (
            PlannedJob(
                device=DEVICE.key,
                case=case,
                mode=Mode.CORRECTNESS,
                limit_seconds=0.5,
                estimate_seconds=0.01,
            )
            for case in cases
        )
        store.add_jobs(tx, run.id, jobs)
    return run.id


def states(database: Database, run: int) -> dict[str, int]:
    with database.reading() as tx:
        return {str(s): n for s, n in store.run_progress(tx, run).counts.items()}


def settled(database: Database) -> Counter[int]:
    """How many settling attempts each job has."""
    with database.reading() as tx:
        rows = tx.execute(
            select(schema.attempt.c.job_id).where(schema.attempt.c.outcome == JobState.PASSED)
        )
        return Counter(row.job_id for row in rows)


def execute_apart(run: int) -> subprocess.Popen[str]:
    """An executor in a process of its own, which says each job as it is recorded."""
    from vkbench.messages.wire import encode

    command = [sys.executable, "-c", EXECUTE, str(run), encode(DEVICE).decode()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_every_job_ends_and_causes_are_kept(planted: Settings, database: Database) -> None:
    run = planned(database, ["sleep/f32/n1"] * 20 + ["segfault/f32/n1", "hang/f32/n1"])
    seen: list[Result] = []
    Executor(database, planted, seen.append).work(run, [DEVICE])
    assert states(database, run) == {"passed": 20, "failed": 2}
    ends = Counter(result.outcome for result in seen)
    assert ends == {"passed": 20, "crashed": 3, "timed_out": 3}


def test_a_pipeline_that_crashes_the_driver_fails_no_other_job(
    planted: Settings, database: Database
) -> None:
    run = planned(database, [*["sleep/f32/n1"] * 5, "unmakeable/f32/n1", *["sleep/f32/n1"] * 5])
    seen: list[Result] = []
    Executor(database, planted, seen.append).work(run, [DEVICE])
    assert states(database, run) == {"passed": 10, "failed": 1}
    crashed = Counter(result.case for result in seen if result.outcome == "crashed")
    assert crashed == {"sleep/f32/n1": 1, "unmakeable/f32/n1": 3}


def test_what_a_dead_process_sent_is_done_though_the_clock_was_set_back(
    planted: Settings, database: Database
) -> None:
    run = planned(database, ["sleep/f32/n1"] * 3)
    with database.transaction() as tx:
        assert len(store.pick(tx, DEVICE.key, 2, time.time() + 3600)) == 2
    Executor(database, planted, lambda result: None).work(run, [DEVICE])
    assert states(database, run) == {"passed": 3}


def test_a_run_here_is_no_worker(planted: Settings, database: Database) -> None:
    run = planned(database, ["sleep/f32/n1"])
    Executor(database, planted, lambda result: None).work(run, [DEVICE])
    later = planned(database, ["sleep/f32/n2"])
    now = time.time()
    with database.reading() as tx:
        [queue], [row] = queues(tx), devices(tx)
        [station] = attendance(tx, run=later).stations
        assert served_devices(tx, now) == set()
        assert len(watched_devices(tx, now)) == 1  # a suspicion waits for `regressions confirm`
    assert not queue.is_served(now)
    assert not station.is_served(now)
    assert state_of(row, now) == "offline"
    assert (queue.queued, queue.host) == (1, DEVICE.host)


def test_only_the_run_asked_for_is_done(planted: Settings, database: Database) -> None:
    older = planned(database, ["sleep/f32/n1"] * 3)
    newer = planned(database, ["sleep/f32/n2"] * 3)
    Executor(database, planted, lambda result: None).work(newer, [DEVICE])
    assert states(database, older) == {"queued": 3}
    assert states(database, newer) == {"passed": 3}


@pytest.mark.timeout(300)
def test_kill_nine_loses_and_doubles_nothing(planted: Settings, database: Database) -> None:
    run = planned(database, ["sleep/f32/n20"] * 40)
    kills = 0
    while states(database, run) != {"passed": 40}:
        with execute_apart(run) as child:
            assert child.stdout
            for _ in range(12):
                child.stdout.readline()
            if child.poll() is None:
                child.kill()
                kills += 1
        assert kills < 30
    assert kills >= 2
    assert set(settled(database).values()) == {1}
    with database.reading() as tx:
        causes = tx.execute(select(schema.attempt.c.outcome).distinct()).scalars().all()
    assert {"passed"} <= set(causes) <= {"passed", "worker_died"}


def test_a_job_that_takes_its_supervisor_along_fails_in_the_end(
    planted: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_SANDBOX", "off")  # a contained runner can kill nobody
    run = planned(database, ["sleep/f32/n1", "kill_worker/f32/n1", "sleep/f32/n1"])
    for _ in range(6):
        with execute_apart(run) as child:
            child.communicate(timeout=30)
    assert states(database, run) == {"passed": 2, "failed": 1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_job_on_the_device(
    planted: Settings, database: Database, number: int
) -> None:
    run = planned(database, ["sleep/f32/n200"] * 10)
    with execute_apart(run) as child:
        assert child.stdout
        child.stdout.readline()
        os.kill(child.pid, number)
        _, said = child.communicate(timeout=10)
    assert child.returncode == 0, said
    found = states(database, run)
    assert set(found) == {"passed", "queued"}
    assert 1 <= found["passed"] <= 3
    Executor(database, planted, lambda result: None).work(run, [DEVICE])
    assert states(database, run) == {"passed": 10}


def test_a_second_signal_does_not_wait(planted: Settings, database: Database) -> None:
    run = planned(database, ["sleep/f32/n1", "sleep/f32/n9000"])  # ms
    with execute_apart(run) as child:
        assert child.stdout
        child.stdout.readline()
        began = time.monotonic()
        for _ in range(2):
            time.sleep(0.1)
            os.kill(child.pid, signal.SIGINT)
        child.communicate(timeout=10)
    assert states(database, run) == {"passed": 1, "queued": 1}
    assert time.monotonic() - began < 6  # and not the nine seconds of the job


def test_waiting_for_a_busy_device_is_said_and_can_be_ended(
    planted: Settings, database: Database
) -> None:
    run = planned(database, ["sleep/f32/n1"])
    path = lock_path(planted, DEVICE.key)
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with execute_apart(run) as child:
            assert child.stderr
            assert child.stderr.readline() == "waiting for planted: another process uses it\n"
            os.kill(child.pid, signal.SIGINT)
            _, said = child.communicate(timeout=10)
    assert child.returncode == 0, said
    assert states(database, run) == {"queued": 1}


def held(database: Database) -> sqlite3.Connection:
    """Another writer of the file, in the middle of a long transaction."""
    connection = sqlite3.connect(
        str(database.engine.url.database), isolation_level=None, check_same_thread=False
    )
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.fixture
def impatient(
    planted: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """The same database, opened by somebody who waits for other writers a moment only."""
    monkeypatch.setattr("vkbench_db.waiting.SERVICE_SECONDS", 0.1)
    monkeypatch.setattr("vkbench_db.waiting.SILENT_SECONDS", 0.1)
    with Database.open(planted.database_url()) as opened:
        yield opened


def test_a_long_transaction_of_another_is_waited_out(
    planted: Settings, impatient: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run = planned(impatient, ["sleep/f32/n1"] * 20)
    timers: list[threading.Timer] = []

    def hold_once(result: Result) -> None:
        if not timers:
            timers.append(threading.Timer(1.5, held(impatient).close))  # longer than a job may take
            timers[0].start()

    Executor(impatient, planted, hold_once).work(run, [DEVICE])
    timers[0].join()
    assert states(impatient, run) == {"passed": 20}
    assert set(settled(impatient).values()) == {1}
    with impatient.reading() as tx:
        assert set(tx.execute(select(schema.job.c.tries)).scalars()) == {0}
    said = "waiting for the database: another process writes to it\n"
    assert capsys.readouterr().err.count(said) == 1


def test_who_cannot_wait_is_told_how_to_go_on(
    planted: Settings,
    impatient: Database,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = planned(impatient, ["sleep/f32/n1"])
    monkeypatch.setattr("vkbench_local.machine.all_devices", lambda: [DEVICE])

    def press_ctrl_c(said: object, **_: object) -> None:
        if str(said).startswith("waiting for the database"):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("vkbench_db.waiting.print", press_ctrl_c, raising=False)  # it waits
    with closing(held(impatient)):
        assert main(["run", "--resume", str(run)]) == 130
    assert f"`vkbench run --resume {run}` continues" in capsys.readouterr().err


def test_signals_are_as_before_afterwards(planted: Settings, database: Database) -> None:
    before = signal.getsignal(signal.SIGINT)
    with stoppable(Executor(database, planted, lambda result: None)):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_executor_is_refused_by_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with (
        sole_executor(url),
        pytest.raises(DatabaseInUse, match=rf"process {os.getpid()}\) uses .*a\.db"),
        sole_executor(url),
    ):
        pytest.fail("two executors on one database")
    with sole_executor(url):
        pass


def test_a_server_database_is_for_fleets() -> None:
    with pytest.raises(UsageError, match="vkbench submit"), sole_executor("postgresql://x/y"):
        pytest.fail("not a file")
